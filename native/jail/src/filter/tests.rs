//! Tables, and what their programs answer.

use super::*;

/// Runs a program as the kernel does, and returns its answer.
fn decide(filter: &Filter, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [number.to_le_bytes(), architecture.to_le_bytes()].concat();
    data.extend(0u64.to_le_bytes());
    data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = filter.program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            LOAD => {
                let place = k as usize;
                let word = data[place..place + 4].try_into().unwrap();
                accumulator = u32::from_le_bytes(word);
            }
            EQUAL => at += jump(accumulator == k),
            ANY_BIT => at += jump(accumulator & k != 0),
            RETURN => return k,
            other => panic!("instruction {other}"),
        }
        assert!(at < filter.length, "the program has an end");
    }
}

const fn call(number: libc::c_long, checks: &'static [Check]) -> Call {
    Call {
        number,
        checks,
        reason: "a test",
    }
}

const RULES: &[Call] = &[
    call(3, &[]),
    call(16, &[Check::Is(1, 7), Check::Without(5, 1 << 40 | 4)]),
    call(16, &[Check::Is(1, 0xFFFF_FFFF)]),
    call(9, &[Check::Without(2, 4), Check::Is(0, 0), Check::Is(4, 9)]),
];
static FILTER: Filter = Table {
    role: "test",
    calls: &[&[], RULES, &[call(200, &[])]],
}
.compile();

/// Whether the table allows a call, without a program.
fn is_allowed(number: u32, arguments: [u64; 6]) -> bool {
    let holds = |check: &Check| match *check {
        Check::Is(place, value) => arguments[usize::from(place)] & 0xFFFF_FFFF == value.into(),
        Check::Without(place, bits) => arguments[usize::from(place)] & bits == 0,
    };
    number == 200
        || RULES
            .iter()
            .any(|rule| rule.number == libc::c_long::from(number) && rule.checks.iter().all(holds))
}

#[test]
fn a_program_decides_as_its_table_says() {
    let values = [0, 4, 7, 9, 1 << 40, 0xFFFF_FFFF, 7 | 1 << 32, u64::MAX];
    let mut allowed = 0;
    for number in [0, 3, 9, 16, 200, 0x4000_0003, u32::MAX] {
        for pick in 0..values.len().pow(5) {
            let pick = |place: u32| values[pick / values.len().pow(place) % values.len()];
            let arguments = [pick(0), pick(1), pick(2), 0, pick(3), pick(4)];
            let expected = is_allowed(number, arguments);
            let answer = match expected {
                true => libc::SECCOMP_RET_ALLOW,
                false => libc::SECCOMP_RET_TRAP,
            };
            allowed += u32::from(expected);
            let decided = decide(&FILTER, ARCHITECTURE, number, arguments);
            assert_eq!(decided, answer, "{number} {arguments:x?}");
        }
    }
    assert!(allowed > 0);
}

#[test]
fn a_call_of_another_architecture_ends_the_process_at_once() {
    const I386: u32 = 0x4000_0003;
    let decided = decide(&FILTER, I386, 3, [0; 6]);
    assert_eq!(decided, libc::SECCOMP_RET_KILL_PROCESS);
}

#[test]
#[should_panic(expected = "a call has six arguments")]
fn a_check_of_an_argument_that_no_call_has_is_refused() {
    const WRONG: &[Call] = &[call(0, &[Check::Is(6, 0)])];
    Table {
        role: "wrong",
        calls: &[WRONG],
    }
    .compile();
}

#[test]
#[should_panic(expected = "a rule has no reason")]
fn a_rule_without_a_reason_is_refused() {
    const WRONG: &[Call] = &[Call {
        reason: "",
        ..call(0, &[])
    }];
    Table {
        role: "wrong",
        calls: &[WRONG],
    }
    .compile();
}

#[test]
#[should_panic(expected = "a table has too many rules")]
fn a_table_beyond_the_limit_is_refused() {
    const MANY: &[Call] = &[call(0, &[]); MAX_INSTRUCTIONS / 2];
    Table {
        role: "wrong",
        calls: &[MANY],
    }
    .compile();
}
