use tidegate_bench::hammer::table;

#[test]
fn two_threads_never_get_a_window_over_the_limit() {
    let (text, holds) = table(1_000_000);
    assert!(holds, "{text}");
}
