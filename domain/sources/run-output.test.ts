import { expect, test } from 'vitest';
import { findRunOutput } from './run-output.ts';

const makeRef = (digit: string) => ({ sha256: digit.repeat(64), sizeBytes: 3, mediaType: 'text/plain' });
const own = (digit: string) => ({ ...makeRef(digit), text: 'abc' });
const PAYLOAD = JSON.stringify({
  run: 'build-1',
  stages: {
    compile: { output: own('a'), outputs: { report: own('b'), 'a.b': own('c') } },
    'v1.2': { output: own('d'), outputs: {} },
    v1: { output: null, outputs: { '2': own('e'), x: own('f') } },
  },
  outputsLeftOut: 0,
});

test.each([
  ['compile', 'a'],
  ['compile.report', 'b'],
  ['compile.a.b', 'c'],
  ['v1.x', 'f'],
])('the output %s is found', (name, digit) => {
  expect(findRunOutput(PAYLOAD, name)).toEqual(makeRef(digit));
});

test('an absent output, one of two meanings and a payload that is no end have a reason', () => {
  expect(findRunOutput(PAYLOAD, 'v1')).toBe('the run build-1 has no output v1');
  expect(findRunOutput(PAYLOAD, 'constructor')).toBe('the run build-1 has no output constructor');
  expect(findRunOutput(PAYLOAD, 'v1.2')).toBe('the run build-1 has several outputs v1.2');
  expect(findRunOutput(PAYLOAD.replace('"outputsLeftOut":0', '"outputsLeftOut":7'), 'x')).toBe(
    'the run build-1 has no output x among the outputs in the payload',
  );
  expect(findRunOutput('{', 'x')).toBe('the run undefined has no output x');
});
