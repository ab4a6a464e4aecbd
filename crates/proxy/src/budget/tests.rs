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
async fn a_body_of_the_greediest_client_gives_way_of_which_nothing_has_come_for_longest() {
    let budget = for_files(in_files(4, 1000), in_files(4, 1000));
    let mut held = Vec::new();
    for of in [2, 1, 1, 1] {
        held.push(receiving(&budget, of, 10));
        advance(Duration::from_secs(1)).await;
    }
    // Some more has come of one, and nothing of the next.
    assert!(held[1].hold(in_files(1, 11)) && held[2].hold(in_files(1, 10)));
    let mut other = budget.account(client(3));
    assert!(other.claim(in_files(1, 5)));
    // At once in the books, whenever its reader notices.
    assert_eq!(budget.held(), in_files(4, 36));
    assert_eq!(gave_way(&mut held), [false, false, true, false]);
    let mut lost = held.swap_remove(2);
    assert!(!lost.hold(in_files(1, 9)) && !lost.claim(in_files(1, 11)) && !lost.keep());
    drop(lost);
    assert_eq!(budget.held(), in_files(4, 36));
    drop((held, other));
    assert_eq!(budget.held(), Held::default());
    assert!(budget.0.state.lock().receiving.is_empty());
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

#[test]
fn where_bytes_are_scarce_one_gives_way_who_holds_enough_of_them() {
    let budget = for_files(in_files(9, 100), in_files(9, 100));
    let mut held = [(1, 5), (1, 55), (2, 40)].map(|(of, bytes)| receiving(&budget, of, bytes));
    // Files are no measure of greed here.
    let _small = [2, 2, 2].map(|of| receiving(&budget, of, 0));
    assert!(budget.account(client(3)).claim(in_files(1, 10)));
    assert_eq!(gave_way(&mut held), [false, true, false]);
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
