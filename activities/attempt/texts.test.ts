import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { DataRef, TextsPlan } from '../../domain/plan/plan.ts';
import { evaluateTexts } from '../../domain/language/expression/evaluate.ts';
import { EXPRESSION_LIMITS } from '../../domain/language/expression/limits.ts';
import type { VmStage, StageItem } from '../calls/requests.ts';
import { withTexts } from './texts.ts';

const ENV = { name: 'V', value: { kind: 'literal', text: 'as written' } } as const;

/** A stage whose second argument and variable V contain the sources, with the output of stage `a`. */
async function made(
  output: string | Uint8Array | null,
  sources: readonly string[],
  around = '',
  item: StageItem | null = null,
): Promise<unknown> {
  const bytes = Buffer.from(output ?? '');
  const ref: DataRef = {
    sha256: createHash('sha256').update(bytes).digest('hex'),
    sizeBytes: bytes.length,
    mediaType: 'text/plain',
  };
  const artifacts = { open: () => [bytes] } as never;
  const indices = sources.map((_, index) => index);
  const texts: TextsPlan = {
    sources,
    stages: ['a'],
    params: { p: 'P' },
    texts: [
      { place: { kind: 'arg', index: 1 }, parts: [around, ...indices] },
      { place: { kind: 'env', name: 'V' }, parts: indices },
    ],
  };
  const work = { kind: 'command', program: 'x', args: ['-', 'as written'], env: [ENV] };
  const answer = await withTexts(
    { artifacts, evaluateTexts: (...asked) => Promise.resolve(evaluateTexts(...asked)) },
    {
      stage: { id: 's', texts, work } as unknown as VmStage,
      upstream: { a: { output: output === null ? null : ref, outputs: {} } },
      item,
    },
  );
  if ('problem' in answer) return answer.problem;
  const { work: made } = answer;
  return made.kind === 'command' ? [made.args, made.env[0]!.value] : null;
}

const both = (arg: string, variable = arg): unknown => [['-', arg], { kind: 'literal', text: variable }];

test.each([
  '\'"; touch pwned; `id` $(id) ${IFS} \\ \r\n\t*?[a] && | <',
  '${{ stages.a.output }} $${{ params.p }}',
  '-rf',
  '',
  '\uFEFF💥é\u0001',
  `${'x'.repeat(EXPRESSION_LIMITS.valueBytes)}`,
])('a text contains the exact output of a stage: %#', async (output) => {
  expect(await made(output, ['stages.a.output'], 'tag=')).toEqual(both(`tag=${output}`, output));
});

test('numbers, booleans, lists and mappings are JSON in a text', async () => {
  const output = '{"n":9007199254740993,"d":1.5,"b":true,"l":[1,"a",null,{"k":[]}],"m":{"__proto__":"\\u0000\\n"}}';
  for (const [source, text] of [
    ['stages.a.json.n', '9007199254740993'],
    ['stages.a.json.d + 1.0', '2.5'],
    ['stages.a.json.b', 'true'],
    ['stages.a.json.l', '[1,"a",null,{"k":[]}]'],
    ['stages.a.json.m', '{"__proto__":"\\u0000\\n"}'],
    ['{"x": stages.a.json.n, "p": params.p}', '{"x":9007199254740993,"p":"P"}'],
  ] as const)
    expect(await made(output, [source]), source).toEqual(both(text));
});

const NUMBERS =
  '{"u64":18446744073709551615,"dec":0.12345678901234567891,"f":1.0,"e":1e3,"z":-0,"same":1.00,"l":[1.50,1.5]}';

test('a number in a text has the digits that the stage printed', async () => {
  for (const [source, text] of [
    ['stages.a.json.u64', '18446744073709551615'],
    ['stages.a.json.dec', '0.12345678901234567891'],
    ['stages.a.json["f"]', '1.0'],
    ['stages.a.json.e', '1e3'],
    ['stages.a.json.z', '-0'],
    ['stages.a.json', NUMBERS],
    ['stages.a.json.l', '[1.50,1.5]'],
    ['{"f": stages.a.json.f, "__proto__": stages.a.json.u64}', '{"f":1.0,"__proto__":18446744073709551615}'],
    ['stages.a.json.?f.orValue(2)', '1.0'],
    ['string(stages.a.json.dec)', '0.12345678901234567891'],
    ['"u" + string(stages.a.json.u64) + string(true) + string("s")', 'u18446744073709551615trues'],
    ['params.p == "P" ? stages.a.json.dec : 0.5', '0.12345678901234567891'],
    ['[stages.a.json].map(x, x.u64)', '[18446744073709551615]'],
    ['stages.a.json.f + 2.25', '3.25'],
  ] as const)
    expect(await made(NUMBERS, [source]), source).toEqual(both(text));
  const item = { index: 0, text: NUMBERS };
  expect(await made('', ['item.u64', 'item.f'], '', item)).toEqual(both('184467440737095516151.0'));
});

test.each([
  ['params.p == "P" ? stages.a.json.l[0] : 0.5', /the numbers 1.50 and 1.5 become the same number in a computation/],
  ['string(stages.a.json.f)', /the numbers 1.0 and 1.00 become the same number in a computation/],
  ['stages.a.json.u64 + 1', /^the expression `.*`: integer overflow: 18446744073709551616/],
])('a number whose digits an expression would lose is an error: %s', async (source, problem) => {
  expect(await made(NUMBERS, [source])).toMatch(problem);
});

test.each<[string, string | Uint8Array | null, string, RegExp]>([
  ['a zero byte', 'a\0b', 'stages.a.output', /^the expression `stages.a.output`: its value has a zero byte/],
  [
    'bytes that are no text',
    new Uint8Array([0x61, 0xff]),
    'stages.a.output',
    /^the output of stage a is not UTF-8 text$/,
  ],
  ['half a character', '"\\ud800"', 'stages.a.json', /unpaired surrogate/],
  [
    'a value beyond the limit',
    'x'.repeat(EXPRESSION_LIMITS.valueBytes + 1),
    'stages.a.output',
    /has 32769 bytes; at most 32768/,
  ],
  [
    'an output beyond the limit',
    'x'.repeat(EXPRESSION_LIMITS.inputBytes),
    'stages.a.output',
    /^its expressions read 1048585 bytes; at most 1048576/,
  ],
  ['an absent output', null, 'stages.a.output', /no such key: output; ask for it with `has\(…\)` first/],
  ['null', '{"x":null}', 'stages.a.json.x', /its value is null, which is not a text/],
  ['what is no JSON', 'hi', 'stages.a.json', /the output of stage a is not JSON/],
  ['an optional', '{}', 'stages.a.json.?x', /its value has the type optional/],
  ['a date in a list', '[]', 'stages.a.json + [timestamp("2020-01-01T00:00:00Z")]', /its value is not a text/],
])('%s is an error instead of a text', async (_what, output, source, problem) => {
  expect(await made(output, [source])).toMatch(problem);
});

test('an item in a text is formatted like a value of an output', async () => {
  const of = (text: string): StageItem => ({ index: 7, text });
  expect(await made('hi', ['item', 'item_index'], '', of('"a \\u0007b"'))).toEqual(both('a \u0007b7'));
  expect(await made('hi', ['item.n + 1'], '', of('{"n":9007199254740990}'))).toEqual(both('9007199254740991'));
  expect(await made('hi', ['item', 'stages.a.output'], '', of('[1,null]'))).toEqual(both('[1,null]hi'));
  expect(await made('hi', ['item'], '', of('null'))).toMatch(/^the expression `item`: its value is null/);
  expect(await made('hi', ['item'], '')).toMatch(/unknown variable: item/);
});

test('an item counts towards the limit only if a text reads it', async () => {
  const large = { index: 0, text: JSON.stringify('x'.repeat(EXPRESSION_LIMITS.inputBytes)) };
  expect(await made('hi', ['item.size()'], '', large)).toMatch(/^its expressions read 1048589 bytes; at most 1048576/);
  expect(await made('hi', ['stages.a.output'], '', large)).toEqual(both('hi'));
});

test('all texts of a stage together have a limit', async () => {
  const output = 'x'.repeat(EXPRESSION_LIMITS.valueBytes);
  expect(await made(output, ['stages.a.output', 'stages.a.output + ""'])).toEqual(both(output + output));
  const more = await made(output, ['stages.a.output', 'stages.a.output + ""'], 'y');
  expect(more).toBe(
    'arguments and variables with values of expressions have 131073 bytes together; at most 131072 are allowed: pass large data with `inputs` or `stdin_from`',
  );
});
