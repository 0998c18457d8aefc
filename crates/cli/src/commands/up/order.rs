//! What may be typed while members are up.

/// The words for it.
pub(super) const HELP: &str = "\
While it runs, type a letter, a number where there is one, and Enter:
  k 2  kill -9    s 2  stop    r 2  restart    p 2  pause    c 2  continue
  l  kill the raft leader    i  status    ?  this    q  quit
";

/// One order. Members are counted from 0 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Kill(usize),
    Stop(usize),
    Restart(usize),
    /// All members that have ended.
    RestartAll,
    Pause(usize),
    Continue(usize),
    KillLeader,
    Status,
    Help,
    Quit,
    /// An empty line.
    Nothing,
}

/// Reads a line. `k2`, `k 2`, `k n2` and `kill 2` are the same.
pub(super) fn read(line: &str, members: usize) -> Result<Order, String> {
    let line = line.trim();
    let letters = line.find(|c: char| !c.is_ascii_alphabetic() && c != '?').unwrap_or(line.len());
    let (verb, rest) = line.split_at(letters);
    let rest = rest.trim();
    let number = rest.strip_prefix('n').unwrap_or(rest);
    let member = || match number.parse::<usize>() {
        Ok(number) if (1..=members).contains(&number) => Ok(number - 1),
        _ if members == 1 => Err(format!("which member? the only one is {verb} 1")),
        _ => Err(format!("which member? {verb} 1 to {verb} {members}")),
    };
    let alone = |order| match rest {
        "" => Ok(order),
        _ => Err(format!("{verb} stands alone")),
    };
    match &verb.to_ascii_lowercase()[..] {
        "k" | "kill" => member().map(Order::Kill),
        "s" | "stop" => member().map(Order::Stop),
        "r" | "restart" if rest.is_empty() => Ok(Order::RestartAll),
        "r" | "restart" => member().map(Order::Restart),
        "p" | "pause" => member().map(Order::Pause),
        "c" | "continue" => member().map(Order::Continue),
        "l" | "leader" => alone(Order::KillLeader),
        "i" | "status" => alone(Order::Status),
        "?" | "h" | "help" => alone(Order::Help),
        "q" | "quit" => alone(Order::Quit),
        "" if rest.is_empty() => Ok(Order::Nothing),
        _ => Err(format!("{line:?} means nothing here; ? shows what does")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_order_is_a_letter_and_a_number() {
        for line in ["k 2", "k2", " K  2 ", "k n2", "kill 2"] {
            assert_eq!(read(line, 3), Ok(Order::Kill(1)), "{line}");
        }
        assert_eq!(read("r", 3), Ok(Order::RestartAll));
        assert_eq!(read("r 3", 3), Ok(Order::Restart(2)));
        assert_eq!(read("l", 3), Ok(Order::KillLeader));
        assert_eq!(read("?", 3), Ok(Order::Help));
        assert_eq!(read("", 3), Ok(Order::Nothing));
    }

    #[test]
    fn up_order_without_meaning_is_refused_with_what_would_have_one() {
        for (line, says) in [
            ("k", "k 1 to k 3"),
            ("k 0", "k 1 to k 3"),
            ("p 4", "p 1 to p 3"),
            ("x 1", "means nothing"),
            ("q 2", "stands alone"),
            ("7", "means nothing"),
        ] {
            let refused = read(line, 3).unwrap_err();
            assert!(refused.contains(says), "{line}: {refused}");
        }
        assert!(read("k 2", 1).unwrap_err().contains("k 1"));
    }

    #[test]
    fn up_order_that_is_damaged_is_refused_or_read() {
        let sound = proptest::strategy::Just("kill 2".to_owned());
        tenure_damage::hold(500, tenure_damage::damaged_text(sound), |text| {
            let _ = read(&text, 3);
            Ok(())
        });
    }
}
