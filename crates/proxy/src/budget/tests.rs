//! What clients hold, what is rejected, and which body gives way.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::advance;

use super::*;

fn memory(bytes: u64) -> Held {
    Held { memory: bytes, ..Held::default() }
}

fn budget(client: u64, total: u64) -> Budget {
    let bounds = Bounds { client: memory(client), total: memory(total), ..Bounds::default() };
    Budget::new(bounds)
}

fn client(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[test]
fn a_client_that_holds_too_much_leaves_room_for_others() {
    let budget = budget(10, 15);
    let [mut one, mut two] = [1, 1].map(|last| budget.account(client(last)));
    assert!(one.hold(memory(6)));
    assert!(!two.hold(memory(5)));
    assert!(two.hold(memory(4)));
    let mut other = budget.account(client(2));
    assert!(other.hold(memory(5)));
    assert_eq!(budget.held(), memory(15));
    // The total is full.
    assert!(!other.hold(memory(6)));
    drop(one);
    assert!(other.hold(memory(6)));
}

#[test]
fn what_is_dropped_is_free_again_and_its_client_forgotten() {
    let budget = budget(10, 15);
    let mut account = budget.account(client(1));
    assert!(account.hold(memory(9)) && account.hold(memory(3)));
    assert_eq!((account.held(), budget.held()), (memory(3), memory(3)));
    drop(account);
    assert_eq!(budget.held(), Held::default());
    assert!(budget.0.state.lock().clients.is_empty());
}

/// `count` files of together so many bytes.
fn in_files(count: u64, bytes: u64) -> Held {
    Held { memory: 0, file: bytes, files: count }
}

fn for_files(client: Held, total: Held) -> Budget {
    Budget::new(Bounds { client, total, ..Bounds::default() })
}

/// A body of `of` that is being received, with so many bytes so far.
fn receiving(budget: &Budget, of: u8, bytes: u64) -> Account {
    let mut account = budget.account(client(of));
    assert!(account.claim(in_files(1, bytes)));
    account.may_give_way();
    assert!(account.hold(in_files(1, bytes)));
    account
}

/// Which of them have given way.
fn gave_way(accounts: &mut [Account]) -> Vec<bool> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    accounts.iter_mut().map(|account| account.poll_gave_way(&mut cx).is_ready()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_body_of_the_greediest_client_gives_way_that_has_moved_least() {
    let budget = for_files(in_files(4, 1000), in_files(4, 1000));
    let mut held = Vec::new();
    for of in [2, 1, 1, 1] {
        held.push(receiving(&budget, of, 10));
        advance(Duration::from_secs(1)).await;
    }
    // 16 bytes in 3 s, 10 in 2 s and 10 in 1 s; the last byte of the slowest came last.
    assert!(held[1].hold(in_files(1, 16)) && held[2].hold(in_files(1, 10)));
    let mut other = budget.account(client(3));
    assert!(other.claim(in_files(1, 5)));
    // At once in the books, whenever its reader notices.
    assert_eq!(budget.held(), in_files(4, 41));
    assert_eq!(gave_way(&mut held), [false, false, true, false]);
    let mut lost = held.swap_remove(2);
    assert!(!lost.hold(in_files(1, 9)) && !lost.claim(in_files(1, 11)) && !lost.keep());
    drop(lost);
    assert_eq!(budget.held(), in_files(4, 41));
    drop((held, other));
    assert_eq!(budget.held(), Held::default());
    assert!(budget.0.state.lock().receiving.is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_each_client_has_one_file_the_slowest_gives_way_to_one_twice_as_fast() {
    let budget = for_files(in_files(4, 1000), in_files(3, 1000));
    let mut held = [(1, 500), (2, 100), (3, 300)].map(|(of, bytes)| receiving(&budget, of, bytes));
    advance(Duration::from_secs(10)).await;
    let mut other = budget.account(client(4));
    advance(Duration::from_secs(1)).await;
    // The slowest has moved 100 bytes in 11 s: 9.1 a second.
    assert!(!other.claim(in_files(1, 18)));
    assert!(other.claim(in_files(1, 19)));
    assert_eq!(gave_way(&mut held), [false, true, false]);
}

#[test]
fn nobody_gives_way_to_a_client_who_would_be_as_greedy() {
    let budget = for_files(in_files(4, 1000), in_files(4, 1000));
    let mut held = [1, 1, 2, 2].map(|of| receiving(&budget, of, 10));
    assert!(!budget.account(client(1)).claim(in_files(1, 1)));
    let mut third = budget.account(client(3));
    assert!(third.claim(in_files(1, 1)));
    // It would have two, and who has most has two.
    assert!(!budget.account(client(3)).claim(in_files(1, 1)));
    assert_eq!(gave_way(&mut held).iter().filter(|gave_way| **gave_way).count(), 1);
    assert_eq!(budget.held(), in_files(4, 31));
}

#[test]
fn a_body_that_has_come_whole_gives_no_way() {
    let budget = for_files(in_files(4, 1000), in_files(4, 1000));
    let mut held = [1, 1, 2, 2].map(|of| receiving(&budget, of, 10));
    assert!(held[0].keep() && held[1].keep() && held[2].keep());
    assert!(budget.account(client(3)).claim(in_files(1, 10)));
    assert!(!held[3].keep());
    let mut third = receiving(&budget, 3, 10);
    assert!(!budget.account(client(4)).claim(in_files(1, 10)));
    assert!(third.keep());
    assert_eq!(budget.held(), in_files(4, 40));
}

#[test]
fn a_body_that_is_being_written_gives_way_only_afterwards() {
    let budget = for_files(in_files(2, 1000), in_files(2, 1000));
    let mut held = [1, 1].map(|of| receiving(&budget, of, 10));
    assert!(held[0].claim(in_files(1, 11)) && held[1].claim(in_files(1, 11)));
    let mut other = budget.account(client(2));
    assert!(!other.claim(in_files(1, 10)));
    assert!(held[1].hold(in_files(1, 11)));
    assert!(other.claim(in_files(1, 10)));
    assert_eq!(gave_way(&mut held), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn where_bytes_are_scarce_one_gives_way_who_holds_enough_of_them() {
    let budget = for_files(in_files(9, 100), in_files(9, 100));
    let mut held = [(1, 5), (1, 55), (2, 40)].map(|(of, bytes)| receiving(&budget, of, bytes));
    // Files are no measure of greed here.
    let _small = [2, 2, 2].map(|of| receiving(&budget, of, 0));
    advance(Duration::from_secs(5)).await;
    assert!(budget.account(client(3)).claim(in_files(1, 10)));
    assert_eq!(gave_way(&mut held), [false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn where_bytes_are_scarce_one_gives_way_of_which_nothing_has_come_for_five_seconds() {
    let budget = for_files(in_files(9, 100), in_files(9, 100));
    let mut held = [(1, 49), (2, 50)].map(|(of, bytes)| receiving(&budget, of, bytes));
    let mut other = budget.account(client(3));
    advance(Duration::from_millis(4999)).await;
    // Some more has come of the greedier one.
    assert!(held[1].hold(in_files(1, 51)));
    assert!(!other.claim(in_files(1, 10)));
    advance(Duration::from_millis(1)).await;
    assert!(other.claim(in_files(1, 10)));
    assert_eq!(gave_way(&mut held), [true, false]);
    advance(Duration::from_millis(4998)).await;
    assert!(!other.claim(in_files(1, 50)));
    advance(Duration::from_millis(1)).await;
    assert!(other.claim(in_files(1, 50)));
    assert_eq!(gave_way(&mut held[1..]), [true]);
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_client_waited_for_the_disk_has_not_stood_still() {
    let budget = for_files(in_files(9, 100), in_files(9, 100));
    let mut held = [receiving(&budget, 1, 90)];
    assert!(held[0].claim(in_files(1, 100)));
    advance(Duration::from_secs(60)).await;
    assert!(held[0].hold(in_files(1, 100)));
    assert!(!budget.account(client(2)).claim(in_files(1, 10)));
    assert_eq!(gave_way(&mut held), [false]);
}

/// How many bodies of 1000 bytes come whole in 1000 s where there is room for 8000 bytes, and each
/// of so many clients sends 10 bytes a second, and a new body at once after one that has come whole
/// or been rejected. `ask` takes the room for what is sent.
async fn uploads(clients: u8, ask: fn(&mut Account, Held) -> bool) -> u64 {
    let budget = for_files(in_files(100, 2000), in_files(512, 8000));
    let begin = |of| receiving(&budget, of, 0);
    let mut bodies: Vec<_> = (0..clients).map(|of| (of, begin(of))).collect();
    let mut whole = 0;
    for _ in 0..1000 {
        advance(Duration::from_secs(1)).await;
        for (of, body) in &mut bodies {
            let wanted = in_files(1, body.held().file + 10);
            let has_room = ask(body, wanted) && body.hold(wanted);
            let is_whole = has_room && wanted.file == 1000 && body.keep();
            whole += u64::from(is_whole);
            if is_whole || !has_room {
                *body = begin(*of);
            }
        }
    }
    whole
}

#[tokio::test(start_paused = true)]
async fn as_many_long_uploads_come_whole_as_if_none_gave_way() {
    for (clients, at_least) in [(8, 80), (12, 80), (16, 80), (20, 60)] {
        let if_none_gave_way = uploads(clients, Account::hold).await;
        let whole = uploads(clients, Account::claim).await;
        assert!(if_none_gave_way >= at_least, "{clients} clients: {if_none_gave_way}");
        assert!(whole >= if_none_gave_way, "{clients} clients: {whole}, not {if_none_gave_way}");
    }
}

#[test]
fn what_is_beyond_a_clients_own_bound_makes_nobody_give_way() {
    let budget = for_files(in_files(2, 1000), in_files(2, 1000));
    let mut held = [1, 1].map(|of| receiving(&budget, of, 10));
    assert!(!budget.account(client(2)).claim(in_files(1, 1001)));
    assert!(!budget.account(client(2)).hold(in_files(1, 10)));
    assert_eq!(gave_way(&mut held), [false, false]);
}

/// What a request of the property below does.
#[derive(Clone, Debug)]
enum Operation {
    Come(u8),
    Hold(usize, u64),
    Claim(usize, u64),
    Keep(usize),
    Leave(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let (index, bytes) = (any::<usize>(), 0_u64..40);
    prop_oneof![
        (0_u8..4).prop_map(Operation::Come),
        (index, bytes.clone()).prop_map(|(index, bytes)| Operation::Hold(index, bytes)),
        (index, bytes).prop_map(|(index, bytes)| Operation::Claim(index, bytes)),
        index.prop_map(Operation::Keep),
        index.prop_map(Operation::Leave),
    ]
}

/// Does `operation` to one of `accounts`, if there is one.
fn run(operation: &Operation, budget: &Budget, accounts: &mut Vec<Account>) {
    let count = accounts.len().max(1);
    match *operation {
        Operation::Come(of) => accounts.push(budget.account(client(of))),
        Operation::Leave(index) if !accounts.is_empty() => {
            drop(accounts.swap_remove(index % count));
        }
        Operation::Hold(index, memory) => {
            if let Some(account) = accounts.get_mut(index % count) {
                account.hold(Held { memory, ..account.held() });
            }
        }
        Operation::Claim(index, file) => {
            if let Some(account) = accounts.get_mut(index % count) {
                let is_first = account.held().files == 0;
                let is_held = account.claim(Held { file, files: 1, ..account.held() });
                if is_held && is_first && account.receiving.is_none() {
                    account.may_give_way();
                }
            }
        }
        Operation::Keep(index) => {
            accounts.get_mut(index % count).map(Account::keep);
        }
        Operation::Leave(_) => {}
    }
}

proptest! {
    #[test]
    fn what_is_held_is_the_sum_of_all_that_have_not_given_way(
        operations in proptest::collection::vec(operation(), 1..200)
    ) {
        let (of_client, of_all) =
            (Held { memory: 50, file: 90, files: 4 }, Held { memory: 100, file: 150, files: 6 });
        let budget = for_files(of_client, of_all);
        let mut accounts = Vec::new();
        for operation in &operations {
            run(operation, &budget, &mut accounts);
            let mut sums = HashMap::new();
            let state = budget.0.state.lock();
            for account in &accounts {
                let key = account.receiving.as_ref().map(|(key, _)| *key);
                if key.is_none_or(|key| !state.receiving.has_given_way(key)) {
                    let sum: &mut Held = sums.entry(account.client).or_default();
                    *sum = sum.and(account.held);
                }
            }
            sums.retain(|_, sum| *sum != Held::default());
            let total = sums.values().fold(Held::default(), |sum, held| sum.and(*held));
            prop_assert_eq!(state.total, total);
            prop_assert!(total.is_within(of_all));
            prop_assert!(sums.values().all(|held| held.is_within(of_client)));
            prop_assert_eq!(&state.clients, &sums);
        }
        drop(accounts);
        prop_assert_eq!(budget.held(), Held::default());
    }
}
