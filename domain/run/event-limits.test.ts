import { expect, test } from 'vitest';
import { planOf } from '../../test/machine/plan-of.ts';
import { machineBytes, machinePlanOf } from '../pipeline/machine-plan.ts';
import { STAGE_DEFAULTS } from '../plan/defaults.ts';
import { type Plan, PLAN_LIMITS } from '../plan/plan.ts';
import { listStagesBefore } from '../plan/work.ts';
import type { NewRunEvent, RunEventBody } from './event.ts';
import { EVENT_LIMITS, findEventProblem, toStorableEvent } from './event-limits.ts';
import type { StageFailure, StageResult } from './stage-result.ts';

/** A name of the greatest length for ids and names. */
const nameOf = (index: number): string => `${index}-`.padEnd(PLAN_LIMITS.nameLength, 'n');
const NAMES = Array.from({ length: PLAN_LIMITS.stages }, (_, index) => nameOf(index));
/** Each character takes six bytes of JSON. */
const WORST_TEXT = '\u0001'.repeat(2 * EVENT_LIMITS.textCharacters);
const WORST_FAILURE: StageFailure = { code: 'stage/exit-nonzero', message: WORST_TEXT, stderrTail: WORST_TEXT };

function eventOf(body: RunEventBody): NewRunEvent {
  return { id: body.type, atMs: 8.64e15, body };
}

function bytesOf(body: RunEventBody): number {
  return Buffer.byteLength(JSON.stringify(toStorableEvent(eventOf(body))));
}

/** As many edges between as many stages as an admission lets through: short names, so that it is marks that count. */
function largestPlan(): Plan {
  const ids = NAMES.map((_, at) => `s${at}`);
  const { stages, ...rest } = planOf(ids.join(' '));
  const plan = (edges: number): Plan => ({
    ...rest,
    stages: stages.map((stage, at) => ({
      ...stage,
      timeoutMs: STAGE_DEFAULTS.timeoutMs,
      after: ids.slice(0, Math.min(at, edges)).map((before) => ({ stage: before, on: 'success' })),
    })),
  });
  let edges = 1;
  while (machineBytes(machinePlanOf(plan(edges + 1))) <= PLAN_LIMITS.machineBytes) edges += 1;
  return plan(edges);
}

const fits = [
  [
    'an admission of the most stages with the most edges',
    () => {
      const { name, kind, stages } = largestPlan();
      const listed = stages.map((stage) => ({ id: stage.id, dependsOn: listStagesBefore(stage) }));
      return { type: 'run-admitted', name, kind, hostId: 'h'.repeat(64), stages: listed, outputStage: nameOf(0) };
    },
    500_000,
  ],
  [
    'an admission of the most stages without an edge',
    () => {
      const listed = NAMES.map((id) => ({ id, dependsOn: [] }));
      return { type: 'run-admitted', name: 'n', kind: 'workflow', hostId: 'h', stages: listed, outputStage: null };
    },
    175_000,
  ],
  [
    'a result with the most named outputs and the longest words',
    () => {
      const ref = { sha256: 'a'.repeat(64), sizeBytes: Number.MAX_SAFE_INTEGER, mediaType: 'application/octet-stream' };
      const result: StageResult = {
        stage: nameOf(0),
        instance: [],
        attempt: 1,
        execKey: `${nameOf(0)}/0/1`,
        outcome: 'failed',
        failure: WORST_FAILURE,
        durationMs: 1,
        output: ref,
        outputs: Object.fromEntries(NAMES.map((name) => [name, ref])),
        vm: { backend: 'qemu', vmm: 'qemu', isolation: 'microvm', accelerator: 'kvm' },
        usage: {},
        command: { exitCode: 1, stdoutBytes: 1, stderrBytes: 1 },
      };
      return { type: 'stage-finished', stage: result.stage, execKey: result.execKey, result };
    },
    600_000,
  ],
  [
    'a restart of the most stages',
    () => ({ type: 'scope-restarted', scope: nameOf(0), reason: WORST_TEXT, stages: NAMES }),
    220_000,
  ],
  [
    'an end with the longest words',
    () => {
      const outcome = { state: 'failed', failedStage: nameOf(0), failure: WORST_FAILURE, output: null } as const;
      return { type: 'run-finished', outcome };
    },
    190_000,
  ],
] as const satisfies readonly (readonly [string, () => RunEventBody, number])[];

test.each(fits)('%s is within the limit of every store', (_, bodyOf, atLeast) => {
  const bytes = bytesOf(bodyOf());
  expect(bytes, 'it is the large one that it is meant to be').toBeGreaterThan(atLeast);
  expect(bytes).toBeLessThanOrEqual(EVENT_LIMITS.bytes);
});

test('every text for people is cut, and nothing else is', () => {
  const vm = { vmKey: 'v', scope: 's', generation: 0 };
  const bodies: RunEventBody[] = [
    { type: 'run-resumed', by: WORST_TEXT },
    {
      type: 'vm-ready',
      ...vm,
      backend: 'mock',
      vmm: WORST_TEXT,
      isolation: 'none',
      accelerator: WORST_TEXT,
      kernel: WORST_TEXT,
      jail: WORST_TEXT,
      bootMs: 1,
    },
    { type: 'vm-lost', ...vm, reason: WORST_TEXT },
    { type: 'stage-retrying', stage: 's', execKey: 's/0/1', reason: WORST_TEXT, delayMs: 0 },
    { type: 'stage-skipped', stage: 's', reason: WORST_TEXT },
    { type: 'stage-reattached', stage: 's', execKey: 's/0/1', fence: 1, reason: WORST_TEXT },
    { type: 'notice', level: 'info', message: WORST_TEXT },
  ];
  for (const body of bodies) {
    const texts = Object.values(toStorableEvent(eventOf(body)).body).filter((value) => typeof value === 'string');
    expect(Math.max(...texts.map((text) => text.length)), body.type).toBe(EVENT_LIMITS.textCharacters);
  }
  const answered = { type: 'stage-answered', stage: 's', execKey: 's/0/1', outcome: 'failed' } as const;
  expect(bytesOf({ ...answered, failure: WORST_FAILURE })).toBeLessThan(2 * 6 * EVENT_LIMITS.textCharacters + 200);
  const failed = { type: 'stage-failed', stage: 's', execKey: 's/0/1' } as const;
  expect(bytesOf({ ...failed, failure: WORST_FAILURE })).toBeLessThan(2 * 6 * EVENT_LIMITS.textCharacters + 200);
  const short = eventOf({ type: 'stage-reattached', stage: 's', execKey: 's/0/1', fence: 1, reason: 'ended' });
  expect(toStorableEvent(short)).toEqual(short);
});

test('an event that no reader would accept has a problem that names it', () => {
  expect(findEventProblem(eventOf({ type: 'notice', level: 'info', message: WORST_TEXT }))).toBeNull();
  const stages = Array.from({ length: 40_000 }, (_, index) => ({ id: nameOf(index), dependsOn: [] }));
  const body = { type: 'run-admitted', name: 'n', kind: 'k', hostId: 'h', stages, outputStage: null } as const;
  expect(findEventProblem(eventOf(body))).toMatch(/^the event has \d{7} bytes of JSON; at most 1048576 are allowed: /);
  expect(() => toStorableEvent(eventOf(body))).toThrow('"run-admitted" is not written');
  const shapeless = eventOf({ type: 'vm-lost', vmKey: 'v', scope: 's', generation: 0 } as unknown as RunEventBody);
  expect(findEventProblem(shapeless)).toBe('the event.body.reason is not a string');
});
