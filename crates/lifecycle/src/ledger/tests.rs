use super::*;
use jiff::Timestamp;

mod adoption;
mod cases;
mod defects;
mod explore;
mod model;
mod pauses;
mod roll_outs;
mod scenarios;
mod walk;
mod world;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_600_000 + second).unwrap()
}

#[test]
fn a_ledger_is_written_sorted_and_read_back() {
    let ledger = Ledger::parse("bbbbbbbb-bbbb, aaaaaaaa-aaaa,,");
    assert_eq!(ledger.to_string(), "aaaaaaaa-aaaa,bbbbbbbb-bbbb");
    assert_eq!(Ledger::parse(&ledger.to_string()), ledger);
    assert_eq!(ledger.len(), 2);
}

#[test]
fn an_entry_is_the_first_13_characters_of_the_uid() {
    assert_eq!(Entry::of_uid("0f8fad5b-d9cb-469f-a165-70867728950e").to_string(), "0f8fad5b-d9cb");
}
