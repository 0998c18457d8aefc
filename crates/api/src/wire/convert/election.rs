//! How to be a candidate, as tenure.v1 says it.

use bytes::Bytes;

use crate::wire::tenure::v1 as pb;
use crate::{JoinSpec, Mode};

impl From<Mode> for pb::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => pb::Mode::Exclusive,
            Mode::Shared => pb::Mode::Shared,
            Mode::Permit(_) => pb::Mode::Permit,
        }
    }
}

impl From<pb::Join> for JoinSpec {
    fn from(join: pb::Join) -> Self {
        let mode = match join.mode() {
            pb::Mode::Exclusive => Mode::Exclusive,
            pb::Mode::Shared => Mode::Shared,
            pb::Mode::Permit => Mode::Permit(join.permits),
        };
        let mut metadata: Vec<(String, String)> = join.metadata.into_iter().collect();
        metadata.sort_unstable();
        JoinSpec {
            names: join.names.into_iter().map(Bytes::from).collect(),
            value: join.value,
            mode,
            priority: join.priority,
            preempts: join.preempts,
            no_overlap: join.no_overlap,
            try_only: join.try_only,
            unhealthy: join.unhealthy,
            metadata,
        }
    }
}

impl<Name: ToString> From<&JoinSpec<Name>> for pb::Join {
    fn from(join: &JoinSpec<Name>) -> Self {
        pb::Join {
            names: join.names.iter().map(Name::to_string).collect(),
            value: join.value.clone(),
            mode: pb::Mode::from(join.mode) as i32,
            permits: if let Mode::Permit(permits) = join.mode { permits } else { 0 },
            priority: join.priority,
            preempts: join.preempts,
            no_overlap: join.no_overlap,
            try_only: join.try_only,
            unhealthy: join.unhealthy,
            metadata: join.metadata.iter().cloned().collect(),
        }
    }
}
