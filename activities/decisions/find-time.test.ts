import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createMarkedStarters } from '../admission/starters.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { evaluateTexts } from '../../domain/language/expression/evaluate.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { findTime } from './find-time.ts';
import { NO_LENT_VARIABLES } from '../ports/lent-variables.ts';

const NOW = Date.UTC(2026, 0, 1);
const TOKEN = 'hunter2-hunter2';

let stateDir: string;
let stores: Stores;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-find-time-'));
  stores = await openStores({ stateDir });
  await stores.hostVariables.put('r', { TOKEN });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

async function foundIn(
  output: string,
  parts: readonly (string | number)[] = [0],
  source = 'stages.a.output',
): ReturnType<typeof findTime> {
  const ref = await stores.artifacts.put([Buffer.from(output)] as never, 'text/plain');
  return findTime(
    {
      ...stores,
      lentVariables: NO_LENT_VARIABLES,
      starters: createMarkedStarters(stores.marks),
      evaluateTexts: (...asked) => Promise.resolve(evaluateTexts(...asked)),
      now: () => NOW,
    },
    {
      runId: 'r',
      stage: 'b',
      instance: [],
      texts: { sources: [source], stages: ['a'], params: {}, texts: [{ place: { kind: 'until' }, parts }] },
      upstream: { a: { output: ref, outputs: {} } },
      item: { index: 3, text: '{"at":"2026-03-01T09:00:00Z"}' },
      hostVariables: ['TOKEN'],
      events: [],
    },
  );
}

test('the time of a wait may come from the item', async () => {
  expect(await foundIn('', [0], 'item.at')).toEqual({ untilMs: Date.UTC(2026, 2, 1, 9) });
});

test.each<[string, readonly (string | number)[] | undefined, number]>([
  ['2026-02-01T09:00:00Z\n', undefined, Date.UTC(2026, 1, 1, 9)],
  ['  2026-02-01T09:00:00+01:00 ', undefined, Date.UTC(2026, 1, 1, 8)],
  ['09', ['2026-02-01T', 0, ':30:00Z'], Date.UTC(2026, 1, 1, 9, 30)],
  ['1999-01-01T00:00Z', undefined, Date.UTC(1999, 0, 1)],
  [new Date(NOW + PLAN_LIMITS.waitMs).toISOString(), undefined, NOW + PLAN_LIMITS.waitMs],
])('%j is a time', async (output, parts, untilMs) => {
  expect(await foundIn(output, parts)).toEqual({ untilMs });
});

test.each([
  ['tomorrow\n', 'stage b waits until "tomorrow", which is not a time with its offset from UTC'],
  ['', 'stage b waits until "", which is not a time'],
  ['2026-02-30T09:00:00Z', 'waits until "2026-02-30T09:00:00Z", which is not a time'],
  ['2026-02-01T09:00:00', 'which is not a time with its offset from UTC, such as 2026-12-01T09:00:00Z'],
  [new Date(NOW + PLAN_LIMITS.waitMs + 1).toISOString(), 'which is more than 400d away'],
  [`at ${TOKEN}`, 'waits until "at [redacted]", which'],
  ['\u001b[31mred', 'waits until "\\u001b[31mred", which'],
  ['x'.repeat(5_000), `waits until "${'x'.repeat(99)}…", which is not a time`],
])('%j is refused with its value', async (output, message) => {
  await expect(foundIn(output)).rejects.toMatchObject({
    code: 'stage/wait-time',
    message: expect.stringContaining(message) as string,
  });
});

test('a value that cannot be computed is reported as an expression error', async () => {
  await expect(foundIn('{}', [0], 'stages.a.json.at')).rejects.toMatchObject({
    code: 'stage/expression',
    message: expect.stringContaining('stage b cannot tell until when it waits: the expression') as string,
  });
});
