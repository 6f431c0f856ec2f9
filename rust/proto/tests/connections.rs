// SPDX-License-Identifier: GPL-2.0

//! Every transition of both connection machines.

use proto::conn::{client, server};

/// Drives a client to a state.
fn client_in(state: client::State) -> client::ConnMachine {
    use client::Event::*;
    use client::State;
    let way: &[client::Event] = match state {
        State::Closed => &[],
        State::ResolvingAddress => &[Connect],
        State::ResolvingRoute => &[Connect, AddressResolved],
        State::Connecting => &[Connect, AddressResolved, RouteResolved],
        State::Open => &[Connect, AddressResolved, RouteResolved, Established],
        State::Closing => &[Connect, Close],
    };
    let mut connection = client::ConnMachine::new();
    for event in way {
        let _ = connection.on(*event);
    }
    assert_eq!(connection.state(), state);
    connection
}

#[test]
fn client_transitions() {
    use client::Action::*;
    use client::Event::*;
    use client::State::*;
    let states = [
        Closed,
        ResolvingAddress,
        ResolvingRoute,
        Connecting,
        Open,
        Closing,
    ];
    let end = (Closing, TearDown);
    // One row per event, one column per state. `None`: the state stays, and there is nothing to do.
    let table = [
        (
            Connect,
            [
                Some((ResolvingAddress, ResolveAddress)),
                None,
                None,
                None,
                None,
                None,
            ],
        ),
        (
            AddressResolved,
            [
                None,
                Some((ResolvingRoute, ResolveRoute)),
                None,
                None,
                None,
                None,
            ],
        ),
        (
            RouteResolved,
            [None, None, Some((Connecting, Request)), None, None, None],
        ),
        (
            Established,
            [None, None, None, Some((Open, Announce)), None, None],
        ),
        (
            Failed,
            [None, Some(end), Some(end), Some(end), Some(end), None],
        ),
        (
            Disconnected,
            [None, Some(end), Some(end), Some(end), Some(end), None],
        ),
        (
            DeviceRemoved,
            [None, Some(end), Some(end), Some(end), Some(end), None],
        ),
        // The first two are survived, see below.
        (Malformed, [None; 6]),
        (
            Close,
            [None, Some(end), Some(end), Some(end), Some(end), None],
        ),
        (
            Drained,
            [None, None, None, None, None, Some((Closed, Release))],
        ),
    ];
    for (event, row) in table {
        for (state, expected) in states.into_iter().zip(row) {
            let mut connection = client_in(state);
            let action = connection.on(event);
            let expected = expected.unwrap_or((state, Nothing));
            assert_eq!(
                (connection.state(), action),
                expected,
                "{event:?} in {state:?}"
            );
        }
    }
}

#[test]
fn third_malformed_message_ends_the_connection() {
    use client::Action;
    use client::Event::*;
    let mut connection = client_in(client::State::Open);
    assert_eq!(connection.on(Malformed), Action::Nothing);
    assert_eq!(connection.on(Malformed), Action::Nothing);
    assert_eq!(connection.on(Malformed), Action::TearDown);
    assert_eq!(connection.on(Malformed), Action::Nothing);
    assert_eq!(connection.on(Drained), Action::Release);
}

/// Drives a server to a state.
fn server_in(state: server::State) -> server::ConnMachine {
    use server::Event::*;
    use server::State;
    let way: &[server::Event] = match state {
        State::Requested => &[],
        State::Accepting => &[Prepared],
        State::Open => &[Prepared, Established],
        State::Closing => &[Prepared, Close],
        State::Closed => &[Prepared, Close, Drained],
    };
    let mut connection = server::ConnMachine::new();
    for event in way {
        let _ = connection.on(*event);
    }
    assert_eq!(connection.state(), state);
    connection
}

#[test]
fn server_transitions() {
    use server::Action::*;
    use server::Event::*;
    use server::State::*;
    let states = [Requested, Accepting, Open, Closing, Closed];
    let end = Some((Closing, TearDown));
    let turned_away = Some((Closed, Nothing));
    // One row per event, one column per state. `None`: the state stays, and there is nothing to do.
    let table = [
        (
            Prepared,
            [Some((Accepting, Accept)), None, None, None, None],
        ),
        (Established, [None, Some((Open, Nothing)), None, None, None]),
        (
            Received,
            [None, Some((Open, Serve)), Some((Open, Serve)), None, None],
        ),
        (Failed, [turned_away, end, end, None, None]),
        (Disconnected, [turned_away, end, end, None, None]),
        (DeviceRemoved, [turned_away, end, end, None, None]),
        (Unanswered, [turned_away, end, end, None, None]),
        (Close, [turned_away, end, end, None, None]),
        (Drained, [None, None, None, Some((Closed, Nothing)), None]),
    ];
    for (event, row) in table {
        for (state, expected) in states.into_iter().zip(row) {
            let mut connection = server_in(state);
            let action = connection.on(event);
            let expected = expected.unwrap_or((state, Nothing));
            assert_eq!(
                (connection.state(), action),
                expected,
                "{event:?} in {state:?}"
            );
        }
    }
}
