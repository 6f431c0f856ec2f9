// SPDX-License-Identifier: GPL-2.0

//! Tests of clients that wait to be accepted.

use super::super::{
    config::REJECTED,
    listener::{
        AcceptQueue,
        Limits, //
    }, //
};
use crate::prelude::*;
use endpoint::selftest::connection::{
    parameters,
    wait,
    Side,
    PORT, //
};
use proto::admission::{
    BURST,
    INTERVAL_MS, //
};
use rdma::{
    errno::eopnotsupp,
    listener::CmListener,
    selftest::{
        address,
        net, //
    }, //
};
use sunrpc::selftest::empty_weak;

/// Creates a listener for which at most `max` clients wait, and at most `of_host` of one host.
/// Nobody accepts them.
fn listener(max: usize, of_host: usize) -> Result<(Arc<AcceptQueue>, CmListener<AcceptQueue>)> {
    let requests = AcceptQueue::new(empty_weak()?, Limits { all: max, of_host })?;
    let id = CmListener::new(&net(), &address(PORT)?, 4, requests.clone())?;
    Ok((requests, id))
}

/// Creates a client that requests a connection. `EOPNOTSUPP` on iWARP, where a client that goes
/// away breaks a TCP connection.
fn client() -> Result<Side> {
    let client = Side::asking(&parameters(4, 1))?;
    if client.queue.id().is_iwarp() {
        Err(eopnotsupp())
    } else {
        Ok(client)
    }
}

/// Returns the number of clients that wait, and the number of those that have not gone.
fn waiting(requests: &AcceptQueue) -> (usize, usize) {
    let waiting = requests.waiting.lock();
    let still = waiting
        .requests
        .iter()
        .filter(|request| request.connection.state.is_requested());
    (waiting.requests.len(), still.count())
}

/// Waits until [`waiting`] returns the expected numbers.
fn wait_until(requests: &AcceptQueue, expected: (usize, usize)) -> Result {
    wait(|| (waiting(requests) == expected).then_some(()))
}

/// Makes two clients request a connection from the listener of `requests`, the first of which goes
/// away. Returns the second one.
fn first_of_two_goes(requests: &AcceptQueue) -> Result<Side> {
    let first = client()?;
    wait_until(requests, (1, 1))?;
    let second = client()?;
    wait_until(requests, (2, 2))?;
    drop(first);
    wait_until(requests, (2, 1))?;
    Ok(second)
}

pub(super) fn client_that_has_gone_is_passed_over() -> Result<bool> {
    let (requests, id) = listener(4, 4)?;
    let second = first_of_two_goes(&requests)?;
    let (next, more) = requests.next();
    let is_second = next.is_some_and(|next| next.connection.state.is_requested());
    drop(second);
    drop(id);
    Ok(is_second && !more && requests.next().0.is_none())
}

pub(super) fn clients_that_have_gone_are_forgotten() -> Result<bool> {
    let (requests, id) = listener(4, 4)?;
    let second = first_of_two_goes(&requests)?;
    requests.drop_gone();
    let one = waiting(&requests) == (1, 1);
    drop(second);
    wait_until(&requests, (1, 0))?;
    drop(id);
    Ok(one && requests.next().0.is_none())
}

pub(super) fn one_client_too_many_is_rejected() -> Result<bool> {
    Ok(second_client_is_rejected(1, 4)? && second_client_is_rejected(4, 1)?)
}

/// Returns whether a listener with these limits rejects the second client.
fn second_client_is_rejected(max: usize, of_host: usize) -> Result<bool> {
    let (requests, id) = listener(max, of_host)?;
    let rejected = REJECTED.get();
    let first = client()?;
    wait_until(&requests, (1, 1))?;
    let second = client()?;
    wait(|| (REJECTED.get() == rejected + 1).then_some(()))?;
    let one = waiting(&requests) == (1, 1);
    drop((first, second));
    drop(id);
    drop(requests.next());
    Ok(one)
}

pub(super) fn host_that_had_many_accepted_waits() -> Result<bool> {
    let (requests, id) = listener(4, 4)?;
    let _first = client()?;
    wait_until(&requests, (1, 1))?;
    let (next, _) = requests.next_at(0);
    let Some(next) = next else { return Ok(false) };
    for _ in 1..BURST {
        requests.waiting.lock().admission.accepted(&next.host, 0);
    }
    let _second = client()?;
    wait_until(&requests, (1, 1))?;
    let at_once = requests.next_at(0).0.is_some();
    let too_soon = requests.next_at(INTERVAL_MS.saturating_sub(1)).0.is_some();
    let in_time = requests.next_at(INTERVAL_MS).0.is_some();
    drop(id);
    Ok(!at_once && !too_soon && in_time)
}
