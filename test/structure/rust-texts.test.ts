import { expect, test } from 'vitest';
import { isRustOfProduct, rustTextsIn } from './rust-texts.ts';

test('texts of a source in Rust are its strings, with `…` for values', () => {
  const source = [
    'let a = format!("stage {name:?} has {} of {{}}", n);',
    '#[error("offset {0} of {MAX_BYTES}")]',
    'let b = r#"raw "text" \\n"#;',
    'let c = b"bytes \\x41\\u{e9}";',
    'let d = "over \\',
    '         two lines\\n";',
    'const HELP: &str = "first',
    '  second";',
    'let e = "fifth";',
  ];
  expect(rustTextsIn(source.join('\n'))).toEqual([
    { line: 1, text: 'stage … has … of {}' },
    { line: 2, text: 'offset … of …' },
    { line: 3, text: 'raw "text" \\n' },
    { line: 4, text: 'bytes Aé' },
    { line: 5, text: 'over two lines\n' },
    { line: 7, text: 'first\n  second' },
    { line: 9, text: 'fifth' },
  ]);
});

test('comments, characters and lifetimes hide no string', () => {
  const source = [
    '// a "comment"',
    '/* another "comment" */',
    `let a = ('"', '\\'', b'"', '\\u{22}', "one");`,
    `fn b<'a>(c: &'a str) -> &'static str { "two" }`,
  ];
  expect(rustTextsIn(source.join('\n')).map(({ text }) => text)).toEqual(['one', 'two']);
});

test('strings of tests are left out, and the strings after them are not', () => {
  const source = [
    '#[cfg(test)]',
    'use super::key;',
    'fn one() { say("one") }',
    'struct A {',
    '    #[cfg(test)]',
    '    b: u8,',
    '}',
    'fn two() { say("two") }',
    '#[cfg(test)]',
    'mod tests {',
    '    fn three() { if true { say("}") } say("three") }',
    '}',
    '#[cfg(test)]',
    'fn four(a: u8, b: u8) { say("four") }',
    'fn five() { say("five") }',
  ];
  expect(rustTextsIn(source.join('\n')).map(({ text }) => text)).toEqual(['one', 'two', 'five']);
});

test.each([
  ['native/keeper/src/error.rs', true],
  ['guest/agent/src/door/connection/tests/rest.rs', false],
  ['native/keeper/src/egress/tests.rs', false],
  ['guest/agent/tests/exec.rs', false],
])('whether %s is of the product: %s', (path, isOne) => {
  expect(isRustOfProduct(path)).toBe(isOne);
});
