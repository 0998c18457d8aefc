//! TLS to the cluster: etcdctl's flags, and what they come to.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tenure::grpc::Options;
use tenure::tls::{ClientOptions, PairFiles, Verify};

use super::client::HEADING;
use crate::exit::usage;

/// Flags with etcdctl's names.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct TlsArgs {
    /// The authorities that may have signed the members' certificates [default: the system's] [env: TENURE_CACERT, ETCDCTL_CACERT]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true, help_heading = HEADING)]
    pub(super) cacert: Option<PathBuf>,
    /// The certificate to show to members that ask for one [env: TENURE_CERT, ETCDCTL_CERT]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true, help_heading = HEADING)]
    pub(super) cert: Option<PathBuf>,
    /// The key of --cert [env: TENURE_TLS_KEY, ETCDCTL_KEY]
    #[arg(long = "key", global = true, value_name = "FILE", hide_short_help = true, help_heading = HEADING)]
    // Keys on the command line are called KEY too, hence the longer name.
    pub(super) tls_key: Option<PathBuf>,
    /// Take any certificate of a member: encrypted, but perhaps by a stranger [env: TENURE_INSECURE_SKIP_TLS_VERIFY, ETCDCTL_INSECURE_SKIP_TLS_VERIFY]
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_short_help = true, help_heading = HEADING)]
    pub(super) insecure_skip_tls_verify: Option<bool>,
    /// Whether endpoints without http:// or https:// are spoken to in the clear; a flag for TLS means that they are not [default: true] [env: TENURE_INSECURE_TRANSPORT, ETCDCTL_INSECURE_TRANSPORT]
    #[arg(long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_short_help = true, help_heading = HEADING)]
    pub(super) insecure_transport: Option<bool>,
}

/// TLS as it was asked for. The files are named by absolute paths: processes elsewhere read them, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TlsFiles {
    cacert: Option<PathBuf>,
    /// Certificate and key.
    pair: Option<(PathBuf, PathBuf)>,
    skip_verify: bool,
}

impl TlsArgs {
    /// With what the environment has under the names without `TENURE_` and `ETCDCTL_`. None if TLS is not asked for.
    pub(super) fn files(
        self,
        ours: impl Fn(&str) -> Option<String>,
        theirs: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Option<TlsFiles>> {
        let either = |name: &str| ours(name).or_else(|| theirs(name));
        let file =
            |flag: Option<PathBuf>, name: &str| flag.or_else(|| either(name).map(Into::into));
        let truth = |flag: Option<bool>, name: &str| match (flag, either(name)) {
            (Some(flag), _) => Ok(Some(flag)),
            (None, Some(text)) => match boolean(&text) {
                Some(truth) => Ok(Some(truth)),
                None => Err(usage(format!(
                    "TENURE_{name}, ETCDCTL_{name}: {text:?} is not true or false"
                ))),
            },
            (None, None) => Ok(None),
        };
        let cacert = file(self.cacert, "CACERT");
        let cert = file(self.cert, "CERT");
        // To a command of `tenure run`, TENURE_KEY is the key that stands for its lead.
        let key =
            self.tls_key.or_else(|| ours("TLS_KEY").or_else(|| theirs("KEY")).map(Into::into));
        let skip_verify = truth(self.insecure_skip_tls_verify, "INSECURE_SKIP_TLS_VERIFY")?;
        let skip_verify = skip_verify.unwrap_or(false);
        let transport = truth(self.insecure_transport, "INSECURE_TRANSPORT")?.unwrap_or(true);
        let pair = match (cert, key) {
            (Some(cert), Some(key)) => Some((absolute(cert)?, absolute(key)?)),
            (None, None) => None,
            (cert, key) => {
                let shown = |path: Option<PathBuf>| path.unwrap_or_default().display().to_string();
                let (key, cert) = (shown(key), shown(cert));
                return Err(usage(format!(
                    "KeyFile and CertFile must both be present[key: {key}, cert: {cert}]: give --cert and --key, \
                     or TENURE_CERT and TENURE_TLS_KEY"
                )));
            }
        };
        let wanted = cacert.is_some() || pair.is_some() || skip_verify || !transport;
        let cacert = cacert.map(absolute).transpose()?;
        Ok(wanted.then_some(TlsFiles { cacert, pair, skip_verify }))
    }
}

impl TlsFiles {
    /// With these, by absolute paths.
    pub(crate) fn new(cacert: PathBuf, cert: PathBuf, key: PathBuf) -> TlsFiles {
        TlsFiles { cacert: Some(cacert), pair: Some((cert, key)), skip_verify: false }
    }

    /// The same options by TLS.
    pub(crate) fn on(&self, options: Options) -> anyhow::Result<Options> {
        let verify = match (&self.cacert, self.skip_verify) {
            (_, true) => Verify::Nothing,
            (Some(file), false) => Verify::By(file.clone()),
            (None, false) => Verify::System,
        };
        let pair = self.pair.clone().map(|(cert, key)| PairFiles { cert, key });
        Ok(options.with_tls(ClientOptions { verify, pair, ..ClientOptions::default() })?)
    }

    /// The same for commands that are started, as their environment says it.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = Vec::new();
        let mut set =
            |name, path: &PathBuf| environment.push((name, path.clone().into_os_string()));
        if let Some(file) = &self.cacert {
            set("TENURE_CACERT", file);
        }
        if let Some((cert, key)) = &self.pair {
            set("TENURE_CERT", cert);
            set("TENURE_TLS_KEY", key);
        }
        if self.skip_verify {
            environment.push(("TENURE_INSECURE_SKIP_TLS_VERIFY", "true".into()));
        }
        if environment.is_empty() {
            environment.push(("TENURE_INSECURE_TRANSPORT", "false".into()));
        }
        environment
    }
}

fn absolute(path: PathBuf) -> anyhow::Result<PathBuf> {
    std::path::absolute(&path).with_context(|| path.display().to_string())
}

/// As Go reads it, and so etcdctl.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(args: TlsArgs, env: &[(&str, &str)]) -> anyhow::Result<Option<TlsFiles>> {
        let of = |prefix: &'static str| {
            move |name: &str| {
                let name = format!("{prefix}{name}");
                env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            }
        };
        args.files(of("TENURE_"), of("ETCDCTL_"))
    }

    fn pair(cert: &str, key: &str) -> Option<TlsFiles> {
        let pair = Some((cert.into(), key.into()));
        Some(TlsFiles { pair, ..TlsFiles::default() })
    }

    #[test]
    fn tls_is_used_when_some_flag_or_variable_asks_for_it() {
        assert_eq!(files(TlsArgs::default(), &[]).unwrap(), None);
        let clear = TlsArgs { insecure_transport: Some(true), ..TlsArgs::default() };
        assert_eq!(files(clear, &[]).unwrap(), None);
        let flag = TlsArgs { insecure_transport: Some(false), ..TlsArgs::default() };
        assert_eq!(files(flag, &[]).unwrap(), Some(TlsFiles::default()));
        let variable = [("ETCDCTL_INSECURE_TRANSPORT", "f")];
        assert_eq!(files(TlsArgs::default(), &variable).unwrap(), Some(TlsFiles::default()));
        let skip = files(TlsArgs::default(), &[("TENURE_INSECURE_SKIP_TLS_VERIFY", "1")]);
        assert!(skip.unwrap().unwrap().skip_verify);
        assert!(files(TlsArgs::default(), &[("TENURE_INSECURE_TRANSPORT", "no")]).is_err());
    }

    #[test]
    fn tls_flag_wins_over_our_variable_and_ours_over_etcdctls() {
        let theirs = ("ETCDCTL_CACERT", "/c");
        let ours = ("TENURE_CACERT", "/b");
        let ca = |args: TlsArgs, env: &[(&str, &str)]| files(args, env).unwrap().unwrap().cacert;
        let flag = TlsArgs { cacert: Some("/a".into()), ..TlsArgs::default() };
        assert_eq!(ca(flag, &[theirs, ours]), Some("/a".into()));
        assert_eq!(ca(TlsArgs::default(), &[theirs, ours]), Some("/b".into()));
        assert_eq!(ca(TlsArgs::default(), &[theirs]), Some("/c".into()));
    }

    /// `TENURE_KEY` is the key that stands for the lead of a command of `tenure run`.
    #[test]
    fn tls_key_is_not_the_key_of_a_lead() {
        let lead = ("TENURE_KEY", "job/1a");
        assert_eq!(files(TlsArgs::default(), &[lead]).unwrap(), None);
        let env = [lead, ("TENURE_CERT", "/c"), ("TENURE_TLS_KEY", "/k")];
        assert_eq!(files(TlsArgs::default(), &env).unwrap(), pair("/c", "/k"));
        let env = [lead, ("ETCDCTL_CERT", "/c"), ("ETCDCTL_KEY", "/k")];
        assert_eq!(files(TlsArgs::default(), &env).unwrap(), pair("/c", "/k"));
    }

    #[test]
    fn tls_certificate_needs_its_key() {
        let flag = TlsArgs { cert: Some("c.pem".into()), ..TlsArgs::default() };
        let error = files(flag, &[]).unwrap_err().to_string();
        let said = "KeyFile and CertFile must both be present[key: , cert: c.pem]";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn tls_environment_of_a_command_says_the_same() {
        let tls = TlsFiles {
            cacert: Some("/ca".into()),
            pair: Some(("/c".into(), "/k".into())),
            skip_verify: true,
        };
        let environment = tls.environment();
        let pairs: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.to_str().unwrap())).collect();
        assert_eq!(files(TlsArgs::default(), &pairs).unwrap(), Some(tls));
    }
}
