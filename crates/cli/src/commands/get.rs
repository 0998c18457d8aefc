//! Read a key or a range of keys.

use clap::ValueEnum;
use tenure::api::wire::convert;
use tenure::api::wire::etcdserverpb as pb;
use tenure::api::{Range, Revision, SortOrder, SortTarget};

use crate::args::{Settings, SpanArgs};
use crate::exit::{Exit, usage};
use crate::output::{Format, Output, Show};

/// What to read and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    keys: SpanArgs,
    /// At most so many
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    limit: usize,
    /// As of this revision
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    rev: i64,
    /// In which order
    #[arg(long, value_enum, ignore_case = true)]
    order: Option<Order>,
    /// By which field
    #[arg(long, value_enum, ignore_case = true)]
    sort_by: Option<SortBy>,
    /// Keys without their values
    #[arg(long)]
    keys_only: bool,
    /// Only how many there are
    #[arg(long)]
    count_only: bool,
    /// Values without their keys (simple format)
    #[arg(long)]
    print_value_only: bool,
    /// Linearizable (l): the newest. Serializable (s): what the asked member has, perhaps old
    #[arg(long, value_enum, default_value_t = Consistency::L)]
    consistency: Consistency,
}

/// How new an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Consistency {
    /// The newest there is
    L,
    /// Whatever the asked member has
    S,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Order {
    Ascend,
    Descend,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "UPPER")]
enum SortBy {
    Create,
    Key,
    Modify,
    Value,
    Version,
}

impl Args {
    /// The request that this asks for.
    pub(crate) fn request(&self) -> anyhow::Result<pb::RangeRequest> {
        let range = Range {
            limit: (self.limit > 0).then_some(self.limit),
            revision: (self.rev > 0).then_some(Revision(self.rev)),
            sort_order: match self.order {
                None => SortOrder::None,
                Some(Order::Ascend) => SortOrder::Ascend,
                Some(Order::Descend) => SortOrder::Descend,
            },
            sort_target: match self.sort_by {
                None | Some(SortBy::Key) => SortTarget::Key,
                Some(SortBy::Create) => SortTarget::Create,
                Some(SortBy::Modify) => SortTarget::Mod,
                Some(SortBy::Value) => SortTarget::Value,
                Some(SortBy::Version) => SortTarget::Version,
            },
            keys_only: self.keys_only,
            count_only: self.count_only,
            ..Range::all(self.keys.span()?)
        };
        Ok(convert::range_request(range, self.consistency == Consistency::S))
    }

    fn show(&self, format: Format) -> anyhow::Result<Show> {
        if self.keys_only && self.count_only {
            return Err(usage(
                "`--keys-only` and `--count-only` cannot be set at the same time, choose one",
            ));
        }
        if self.print_value_only && format != Format::Simple {
            return Err(usage("print-value-only is only for `--write-out=simple`"));
        }
        Ok(match (self.count_only, self.print_value_only) {
            (true, _) => Show::CountOnly,
            (false, true) => Show::ValuesOnly,
            (false, false) => Show::All,
        })
    }
}

/// Reads and writes it out.
pub(crate) async fn run(args: Args, settings: Settings) -> anyhow::Result<Exit> {
    let show = args.show(settings.format)?;
    let response = settings.client().kv().range(args.request()?).await?;
    let mut output = Output::stdout(&settings);
    output.get(&response, show)?;
    output.flush()?;
    Ok(Exit::Done)
}
