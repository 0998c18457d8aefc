//! Members of different age.

use tenure_lab::{
    cluster::{World, scenario::Replay},
    engine::ms,
};

#[test]
fn the_cluster_version_waits_for_the_last_member() {
    let _replay = Replay::of_test(1);
    let mut world = World::with(1, 3, |config| {
        config.command_version = if config.me.0 == 2 { 1 } else { 2 };
    });
    world.start_all();
    world.must_lead_within(ms(1500));
    world.run(ms(3000));
    world.must_serve_within(ms(100));
    assert_eq!(world.truth.state().cluster_version, 1);

    world.crash(2);
    world.member_mut(2).config.command_version = 2;
    world.run(ms(2000));
    assert_eq!(world.truth.state().cluster_version, 1, "it has not spoken yet");
    world.start(2);
    world.run(ms(2000));
    assert_eq!(world.truth.state().cluster_version, 2);
    for member in world.members.values() {
        let status = member.process.as_ref().expect("everybody runs").replica.status();
        assert_eq!(status.cluster_version, 2);
    }
}
