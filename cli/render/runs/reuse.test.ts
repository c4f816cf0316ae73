import { expect, test } from 'vitest';
import type { AgainBecause, Reuse } from '../../../domain/pipeline/reuse.ts';
import { toOriginJson } from '../../../app/json/origin-json.ts';
import { renderReuse } from './reuse.ts';
import { PLAIN } from '../text/style.ts';

const ORIGIN = { runId: 'first', kind: 'retry', from: 'b' } as const;
const END = { state: 'succeeded', output: null, outputs: {}, ranIn: 'first', attempt: 1 } as const;

function reuseOf(
  given: readonly string[],
  again: Readonly<Record<string, AgainBecause>>,
  firstDisks: Reuse['firstDisks'] = new Map(),
): Reuse {
  return { given: new Map(given.map((stage) => [stage, END])), again: new Map(Object.entries(again)), firstDisks };
}

test('each stage that runs again has its reason, and stages that only depend on others share a line', () => {
  const reuse = reuseOf(['a', 'z'], {
    b: { kind: 'from' },
    c: { kind: 'after', stage: 'b' },
    d: { kind: 'ended', state: 'cancelled' },
    e: { kind: 'ended', state: null },
    f: { kind: 'differs', keys: ['args', 'sandbox.memoryMib'] },
    g: { kind: 'shares-vm', stage: 'f' },
    h: { kind: 'new' },
  });
  expect(renderReuse(toOriginJson({ origin: ORIGIN, reuse }), PLAIN)).toEqual([
    'retry of first from b:',
    '  taken over: a, z',
    '  runs again: b, which you named',
    '  runs again: d, which was cancelled',
    '  runs again: e, which did not run',
    '  runs again: f, which differs in args, sandbox.memoryMib',
    '  runs again: g, which shares its VM with f: its files in the VM must be created again',
    '  runs again: h, which the earlier run does not have',
    '  and after them: c',
  ]);
  expect(toOriginJson({ origin: ORIGIN, reuse })).toMatchObject({
    origin: ORIGIN,
    given: ['a', 'z'],
    again: [
      { stage: 'b', because: 'from', of: null, keys: [], state: null },
      { stage: 'c', because: 'after', of: 'b' },
      { stage: 'd', because: 'ended', state: 'cancelled' },
      { stage: 'e', because: 'ended', state: null },
      { stage: 'f', because: 'differs', keys: ['args', 'sandbox.memoryMib'] },
      { stage: 'g', because: 'shares-vm', of: 'f' },
      { stage: 'h', because: 'new' },
    ],
  });
});

test('a VM that starts from a checkpoint is shown, and the reason why another one does not', () => {
  const firstDisks = new Map([
    [
      '_shared',
      { scope: '_shared', checkpoint: { number: 4, after: 'd', holds: [{ stage: 'd', attempt: 1 }] }, older: [] },
    ],
  ]);
  const reuse = reuseOf(
    ['d'],
    {
      e: { kind: 'not-saved', stage: 'd' },
      g: { kind: 'shares-vm', stage: 'f', unsaved: 'run first keeps no checkpoint of its VM on this host' },
    },
    firstDisks,
  );
  expect(renderReuse(toOriginJson({ origin: ORIGIN, reuse }), PLAIN)).toEqual([
    'retry of first from b:',
    '  taken over: d',
    '  a VM starts from the checkpoint after d',
    '  runs again: e, whose files are not in the checkpoint after d',
    '  runs again: g, which shares its VM with f: its files in the VM must be created again (run first keeps no checkpoint of its VM on this host)',
  ]);
  expect(toOriginJson({ origin: ORIGIN, reuse })).toMatchObject({
    again: [
      { stage: 'e', because: 'not-saved', of: 'd', unsaved: null },
      { stage: 'g', because: 'shares-vm', of: 'f', unsaved: 'run first keeps no checkpoint of its VM on this host' },
    ],
    checkpoints: [{ scope: '_shared', after: 'd' }],
  });
});

test('a long list is counted, and an id of a stranger is made safe', () => {
  const many = Array.from({ length: 25 }, (_, index) => `s${index}`);
  const lines = renderReuse(
    toOriginJson({
      origin: { runId: 'x\u001b[2J', kind: 'fork', from: null },
      reuse: reuseOf(many, Object.fromEntries(many.map((stage) => [stage, { kind: 'new' }]))),
    }),
    PLAIN,
  );
  expect(lines[0]).toBe('fork of x:');
  expect(lines[1]).toMatch(/s19 and 5 more$/);
  expect(lines).toHaveLength(2 + 20 + 1);
  expect(lines.at(-1)).toBe('  runs again: 5 more');
});
