//! The overload world.

use tidegate_sim::overload::*;

#[test]
fn table() {
    for load in [1.0, 2.0, 5.0, 10.0] {
        println!("load {load}");
        let mut rows: std::collections::BTreeMap<OverloadDesign, Vec<(f64, f64, f64)>> = Default::default();
        let began = std::time::Instant::now();
        for seed in 1..=3 {
            let s = OverloadScenario::new(
                seed,
                15,
                vec![ServiceSpec::reference("main")],
                vec![ClientSpec::gold(200.0), ClientSpec::bronze(1000.0 * load - 200.0)],
            );
            let run = simulate(&s).unwrap();
            for d in &run.designs {
                assert_eq!(d.violations, [], "{:?}", d.design);
                rows.entry(d.design).or_default().push((
                    d.goodput(&run.scenario, 0),
                    d.clients[0].success(),
                    d.clients[0].p99_ms,
                ));
                if seed == 1 && d.design == OverloadDesign::Tidegate {
                    println!("{:?}", d.clients.iter().map(|c| &c.causes).collect::<Vec<_>>());
                }
            }
        }
        println!("{:?}", began.elapsed());
        for (d, v) in rows {
            println!(
                "{:10} {:?}",
                d.name(),
                v.iter().map(|x| format!("{:.3} {:.3} {:.0}", x.0, x.1, x.2)).collect::<Vec<_>>()
            );
        }
    }
}
