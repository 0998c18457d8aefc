//! The members of the cluster, by `--initial-cluster`.

use tenure_api::{ClusterId, Member, MemberId};

use super::Config;

impl Config {
    /// The members the cluster starts with, in order of their ids. Only for settings without problems.
    pub fn members(&self) -> Vec<Member> {
        self.members_spelled(|url| url.trim_end_matches('/').to_owned())
    }

    /// The members as a directory knows them that belongs to this one. Earlier releases took a slash at the
    /// end of an address for a part of it, and made another id of it. A cluster that was founded in the clear and speaks TLS now,
    /// or the other way round, is the same one.
    pub(crate) fn members_as_known_by(&self, me: MemberId) -> Vec<Member> {
        let with_scheme = |scheme: &str, url: &str| match url.split_once("://") {
            Some(("http" | "https", rest)) => format!("{scheme}://{}", rest.trim_end_matches('/')),
            _ => url.to_owned(),
        };
        let spellings = [
            self.members_spelled(str::to_owned),
            self.members_spelled(|url| with_scheme("http", url)),
            self.members_spelled(|url| with_scheme("https", url)),
        ];
        let known = spellings.into_iter().find(|all| all.iter().any(|member| member.id == me));
        known.unwrap_or_else(|| self.members())
    }

    fn members_spelled(&self, spell: impl Fn(&str) -> String) -> Vec<Member> {
        let mut members: Vec<Member> = parse_cluster(&self.initial_cluster)
            .unwrap_or_default()
            .into_iter()
            .map(|(name, urls)| {
                let mut peer_urls: Vec<_> = urls.iter().map(|url| spell(url)).collect();
                peer_urls.sort_unstable();
                let id = MemberId(hash(
                    peer_urls.iter().map(String::as_str).chain([&self.initial_cluster_token[..]]),
                ));
                Member { id, name, peer_urls, client_urls: vec![], is_learner: false }
            })
            .collect();
        members.sort_by_key(|member| member.id);
        members
    }

    /// This member's id: a hash of its peer URLs and the cluster's token.
    pub fn member_id(&self) -> MemberId {
        self.member_id_in(&self.members())
    }

    /// This member's id in a list.
    pub(crate) fn member_id_in(&self, members: &[Member]) -> MemberId {
        let me = members.iter().find(|member| member.name == self.name);
        me.map_or(MemberId(0), |member| member.id)
    }

    /// The cluster's id: a hash of its first members and its token.
    pub fn cluster_id(&self) -> ClusterId {
        self.cluster_id_of(&self.members())
    }

    /// The id of the cluster that these members found, in order of their ids, with this token.
    pub(crate) fn cluster_id_of(&self, founders: &[Member]) -> ClusterId {
        let ids: Vec<String> = founders.iter().map(|member| member.id.to_string()).collect();
        ClusterId(hash(ids.iter().map(String::as_str).chain([&self.initial_cluster_token[..]])))
    }
}

/// The most entries of `--initial-cluster`.
const MEMBERS_NAMED_MAX: usize = 1000;

/// `name=url,name=url` as names with their URLs, in order of appearance.
pub(super) fn parse_cluster(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    if text.split(',').count() > MEMBERS_NAMED_MAX {
        return Err(format!("names more than {MEMBERS_NAMED_MAX} members"));
    }
    let mut members: Vec<(String, Vec<String>)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((name, url)) = part.split_once('=') else {
            return Err(format!("{part:?} must be NAME=URL"));
        };
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, urls)) => urls.push(url.to_owned()),
            None => members.push((name.to_owned(), vec![url.to_owned()])),
        }
    }
    if members.is_empty() {
        return Err("must name at least one member as NAME=URL".into());
    }
    Ok(members)
}

/// Whether a URL asks for TLS.
pub fn is_tls(url: &str) -> bool {
    url.starts_with("https://")
}

/// The host of a URL.
pub(crate) fn host(url: &str) -> Option<String> {
    let address = address(url).ok()?;
    let (host, _) = address.rsplit_once(':')?;
    Some(host.trim_matches(['[', ']']).to_owned())
}

/// The `host:port` of a URL.
pub fn address(url: &str) -> Result<String, String> {
    let rest = match url.split_once("://") {
        Some(("http" | "https", rest)) => rest,
        _ => return Err(format!("{url:?} must begin with http:// or https://")),
    };
    let authority = rest.trim_end_matches('/');
    let port = authority
        .rsplit_once(':')
        .and_then(|(host, port)| (!host.is_empty()).then_some(port)?.parse::<u16>().ok());
    match port {
        Some(_) if !authority.contains('/') => Ok(authority.to_owned()),
        _ => Err(format!("{url:?} must be http://HOST:PORT or https://HOST:PORT")),
    }
}

/// FNV-1a over the parts, with a zero byte after each; never 0, which raft reserves.
pub(crate) fn hash<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // Stirred once more, because the last bytes of similar addresses differ least.
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (hash ^ (hash >> 32)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_agree_on_ids_whatever_the_order() {
        let a = Config {
            initial_cluster: "a=http://h:1,b=http://h:2,c=http://h:3".into(),
            ..Config::default()
        };
        let b = Config {
            initial_cluster: "c=http://h:3,a=http://h:1,b=http://h:2".into(),
            ..Config::default()
        };
        assert_eq!(a.members(), b.members());
        assert_eq!(a.cluster_id(), b.cluster_id());
        let other = Config { initial_cluster_token: "other".into(), ..a.clone() };
        assert_ne!(a.cluster_id(), other.cluster_id());
    }

    /// The id must not change under a directory that an earlier release has made.
    #[test]
    fn a_slash_makes_no_other_member_except_for_a_directory_that_knows_it() {
        let plain = Config {
            initial_cluster: "a=http://h:1,b=http://h:2".into(),
            name: "a".into(),
            ..Config::default()
        };
        let slash =
            Config { initial_cluster: "a=http://h:1/,b=http://h:2".into(), ..plain.clone() };
        assert_eq!(plain.members(), slash.members());
        assert_eq!(plain.members_as_known_by(plain.member_id()), plain.members());
        let earlier = slash.members_spelled(str::to_owned);
        let me = slash.member_id_in(&earlier);
        assert_ne!(me, slash.member_id());
        assert_eq!(slash.members_as_known_by(me), earlier);
        assert_eq!(slash.members_as_known_by(slash.member_id()), slash.members());
    }

    /// A running cluster is given certificates, and its settings are rewritten.
    #[test]
    fn scheme_makes_another_member_only_where_there_is_no_directory_yet() {
        let clear = Config {
            initial_cluster: "a=http://h:1,b=http://h:2".into(),
            name: "a".into(),
            ..Config::default()
        };
        for list in ["a=https://h:1,b=https://h:2", "a=https://h:1/,b=http://h:2"] {
            let secured = Config { initial_cluster: list.into(), ..clear.clone() };
            assert_ne!(secured.member_id(), clear.member_id());
            let known = secured.members_as_known_by(clear.member_id());
            assert_eq!(known, clear.members());
            assert_eq!(secured.cluster_id_of(&known), clear.cluster_id());
        }
        let secured =
            Config { initial_cluster: "a=https://h:1,b=https://h:2".into(), ..clear.clone() };
        assert_eq!(clear.members_as_known_by(secured.member_id()), secured.members());
    }

    #[test]
    fn an_address_needs_a_host_and_a_port() {
        assert_eq!(address("http://127.0.0.1:2379").as_deref(), Ok("127.0.0.1:2379"));
        assert_eq!(address("http://[::1]:2379/").as_deref(), Ok("[::1]:2379"));
        assert_eq!(address("https://a:1").as_deref(), Ok("a:1"));
        for bad in
            ["127.0.0.1:2379", "http://:1", "http://a", "http://a:b", "http://a:1/x", "ftp://a:1"]
        {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
