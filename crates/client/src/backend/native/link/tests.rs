//! Who may have replaced whom.

use super::Comebacks;

#[test]
fn an_attempt_without_an_answer_stays_open_until_it_is_counted() {
    let mut comebacks = Comebacks::default();
    comebacks.opened(1);
    assert_eq!(comebacks.open, 0);
    // Two attempts get no answer, the third does: the server had done one of the two by then.
    comebacks.open = 2;
    comebacks.opened(3);
    assert_eq!((comebacks.attachment, comebacks.open), (3, 1));
    // It takes our place, we come back, and are sure from then on.
    comebacks.opened(5);
    assert_eq!(comebacks.open, 0);
}

#[test]
fn what_others_attach_uses_up_our_excuses() {
    let mut comebacks = Comebacks { attachment: 4, open: 1 };
    comebacks.opened(9);
    assert_eq!(comebacks.open, 0);
}
