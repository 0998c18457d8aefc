//! Examples for `tenure help VERB`. Verbs that have much to say bring their own.

/// A verb, and what stands below its flags.
pub(super) const TABLE: &[(&str, &str)] = &[
    (
        "serve",
        "\
Examples:
  tenure serve                                   one durable node on 127.0.0.1:2379
  tenure serve --data-dir /var/lib/tenure        its data elsewhere
  tenure serve --config-file tenure.yaml         settings from a file
  tenure serve --print-config                    what is set, and where each value comes from

Three members on one machine: tenure up. Three machines: docs/how-to/start-a-cluster.md.
",
    ),
    (
        "run",
        "\
The command finds its fencing token in TENURE_TOKEN: send it along with what it writes.
Exit codes: the command's own; 3 not elected, 4 lost with --once, 69 no server, 124 took too long,
126 and 127 it cannot be run, 128 + n ended by signal n.

Examples:
  tenure run mail -- ./mail-queue                one of many machines does it, all the time
  tenure run db --grace 4s -- postgres           time to end before it is killed
  tenure run web --won USR1 -- ./server          runs at once, is told when it leads
  tenure run -n mail -- ./mail-queue             now, or not at all
  tenure run db --fence-cmd ./cut-off -- ./db    cut off what may still be alive

A job that ends, such as a nightly backup, would be run by every machine in turn: tenure once.
docs/how-to/run.md says more.
",
    ),
    (
        "once",
        "\
Of all hosts that ask for the same slot, one runs the command and exits with its code; the others exit with 0 (-E) and
say which process has it. Exit codes: 4 lost in the middle, 69 no server, 124 took too long.

Examples:
  tenure once backup --cron @daily -- ./backup.sh        in the crontab of every host
  tenure once tidy --every 1h -- ./tidy.sh                once an hour
  tenure once migrate --slot v7 -- ./migrate.sh           once for a version
  tenure once mail --every 1d --at-least-once -- ./mail   again elsewhere if its host dies
  tenure once backup --history                            what came of earlier runs

docs/how-to/cron.md says more.
",
    ),
    (
        "schedule",
        "\
Run it on every machine with the same file. A job has a name, a time (cron or every) and a command; missed, overlap,
guarantee, retries, timeout and jitter say what happens on bad days.

Examples:
  tenure schedule -f jobs.yaml           start the jobs whenever this machine leads
  tenure schedule -f jobs.yaml --check   what is wrong with the file
  tenure schedule -f jobs.yaml --list    the next runs of each job, and the last one

A file to start from is in docs/how-to/cron.md.
",
    ),
    (
        "lock",
        "\
Exit codes: as of tenure run.

Examples:
  tenure lock deploy ./deploy.sh                 one at a time
  tenure lock -n deploy ./deploy.sh              or not at all
  tenure lock -w 10 deploy ./deploy.sh           wait 10 seconds at most
  tenure lock deploy -c ./deploy.sh              by sh
  tenure lock reports --shared -- ./read.sh      with other readers
  tenure lock builds --permits 4 -- make         four at a time
  tenure lock deploy                             hold it until interrupted
",
    ),
    (
        "elect",
        "\
Exit codes: 0 resigned or made room, 3 another candidate leads (with --nonblock), 4 leadership was taken away.

Examples:
  tenure elect nightly-job                       lead, or wait to; Ctrl-C resigns
  tenure elect nightly-job 10.0.0.7:8080         tell others where the leader is
  tenure elect nightly-job --identity alice      be known by a name
  tenure elect nightly-job --ttl 3s              be replaced sooner when silent
  tenure elect nightly-job --fast-release        be replaced 50 ms after this process dies
  tenure elect nightly-job --nonblock            lead now or not at all
  tenure elect nightly-job --priority 10         before those who have less
",
    ),
    (
        "leader",
        "\
Exit codes: 0 a candidate leads, 3 none does.

Examples:
  tenure leader nightly-job                      who leads, with its token
  tenure leader nightly-job -w json              for a script
",
    ),
    (
        "candidates",
        "\
Examples:
  tenure candidates nightly-job                  who leads and who waits, in order
  tenure candidates nightly-job -w json          with sessions, values and health
",
    ),
    (
        "observe",
        "\
Examples:
  tenure observe nightly-job                     from now on, until Ctrl-C
  tenure observe nightly-job -w json             an object a line
  tenure observe nightly-job --after-rev 120     go on where a former one ended
",
    ),
    (
        "history",
        "\
Examples:
  tenure history nightly-job                     who led, how long, and why that ended
  tenure history nightly-job -w json             with revisions and times
",
    ),
    (
        "is-leader",
        "\
Exit codes: 0 it leads, 3 it does not.

Examples:
  tenure is-leader nightly-job && ./backup.sh    only where this host leads: its identity is HOST or HOST/PID
  tenure is-leader nightly-job -v                and say who leads, and why yes or no
  tenure is-leader nightly-job --identity alice  whether alice leads

Inside a command of tenure run or lock it is this very tenure that is asked about, by its token (TENURE_TOKEN).
",
    ),
    (
        "locks",
        "\
Examples:
  tenure locks                                   all elections and locks
  tenure locks jobs/                             those whose names begin so
  tenure locks --state vacant --state flapping   those that need a look
  tenure locks --order changes --limit 10        the most restless
  tenure locks jobs/ --follow -w json            how they stand, then every change
",
    ),
    (
        "transfer",
        "\
Examples:
  tenure transfer nightly-job --to bob              when the leader has made room
  tenure transfer nightly-job --to bob --within 1m  and give it a minute for that
",
    ),
    (
        "evict",
        "\
Examples:
  tenure evict nightly-job                       the present leader
  tenure evict nightly-job --token 17            the place with this token, and no other

Politer: tenure resign, tenure transfer.
",
    ),
    (
        "freeze",
        "\
Examples:
  tenure freeze nightly-job                      no candidate leads, say during a migration
  tenure resume nightly-job                      they may lead again
",
    ),
    (
        "put",
        "\
Exit codes: 3 if a condition did not hold; what was found instead goes to stderr.

Examples:
  tenure put greeting hello                      write a key
  tenure put greeting < hello.txt                its value from stdin
  tenure put leader me --if-absent               only if there is none
  tenure put leader me --if-value you            only if it is still that
  tenure put leader me --if-revision 17          only if it was not changed since
  tenure put job me --ttl 5s --if-absent         it goes away by itself
",
    ),
    (
        "get",
        "\
Examples:
  tenure get greeting                            a key
  tenure get jobs/ --prefix                      all that begin so
  tenure get greeting --rev 17                   as it was
  tenure get greeting --print-value-only         for a script
",
    ),
    (
        "watch",
        "\
Examples:
  tenure watch greeting                          see it change, until Ctrl-C
  tenure watch jobs/ --prefix --rev 17           everything since revision 17
  tenure watch jobs/ --prefix -w json            an object a line
",
    ),
    (
        "lease",
        "\
Examples:
  tenure lease grant 60                          a lease of a minute
  tenure lease timetolive 1a --keys              what is left of it, and its keys
  tenure lease keep-alive 1a                     renew it until Ctrl-C
  tenure lease revoke 1a                         end it, and its keys with it
",
    ),
    (
        "certs",
        "\
Examples:
  tenure certs create --member n1=10.0.0.1,n1.example --member n2=10.0.0.2 --client ops
  tenure certs show                              what stands in them
  tenure certs check --within 30d                exit 1 if something expires soon or does not fit
  tenure certs renew                             those that expire soon; no process is restarted
",
    ),
    (
        "user",
        "\
Examples:
  tenure user add root                           the first one; its password is asked for
  tenure user add ops --interactive=false < pw   its password is the first line of a file
  tenure user grant-role ops nightly             docs/how-to/users.md has the steps
  tenure user get ops --detail                   what it may do
",
    ),
    (
        "role",
        "\
Examples:
  tenure role add nightly
  tenure role grant-permission nightly campaign nightly/    be a candidate in all elections below nightly/
  tenure role grant-permission nightly observe \"\"           see who leads anywhere
  tenure role grant-permission nightly read config/ --prefix
  tenure role get nightly                        what it allows
",
    ),
    (
        "auth",
        "\
Examples:
  tenure auth enable                             from now on every request needs a user
  tenure auth status --user root                 whether that is so
  tenure auth disable --user root
  tenure auth recover --data-dir n1.tenure       root has lost its password
",
    ),
    (
        "member",
        "\
Examples:
  tenure member list -w table                    who belongs to the cluster
  tenure member add n4 --peer-urls=http://10.0.0.4:2380
  tenure member remove 8e9e05c52164694d          docs/how-to/operate.md has the steps
",
    ),
    (
        "status",
        "\
Examples:
  tenure status -w table                         every endpoint, and who is raft leader
  tenure endpoint status --cluster               every member, also those not named
",
    ),
    (
        "snapshot",
        "\
Examples:
  tenure snapshot save backup.db                 a backup of a running cluster
  tenure snapshot status backup.db               what is in it
  tenure snapshot restore backup.db --data-dir n1 --name n1
",
    ),
    (
        "bench",
        "\
Examples:
  tenure bench put                               writes
  tenure bench hand-over --by resign             how long no process leads
",
    ),
];
