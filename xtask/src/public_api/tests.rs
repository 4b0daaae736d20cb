use super::*;

#[test]
fn equal_lists_do_not_differ() {
    assert_eq!(difference("pub fn a()\npub fn b()\n", "pub fn a()\npub fn b()\n"), "");
}

#[test]
fn a_removed_item_and_an_added_one_are_both_shown() {
    let told = difference("pub fn a()\npub fn b()\n", "pub fn b()\npub fn c()\n");
    assert_eq!(told, "- pub fn a()\n+ pub fn c()\n");
}

#[test]
fn a_missing_list_differs_by_every_item_and_the_lines_shown_are_bounded() {
    let api = ["pub fn f()\n"; 100].concat();
    let told = difference("", &api);
    assert_eq!(told.lines().count(), LINES_SHOWN + 1);
    assert!(told.ends_with("  and 60 more lines\n"), "{told}");
}

#[test]
fn methods_moved_to_another_block_of_their_type_are_no_difference() {
    let in_one_block = "impl S\npub fn S::a()\npub fn S::b()\npub fn S::c()\n";
    let in_two_blocks = "impl S\npub fn S::a()\npub fn S::c()\nimpl S\npub fn S::b()\n";
    assert_eq!(difference(in_one_block, in_two_blocks), "");
}
