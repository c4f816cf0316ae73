/**
 * The shapes that records of a run must have when they are read. `activities/admission/admit.ts` and the files next to
 * it write the records.
 */
import { PLAN_PARTS } from '../../domain/plan/plan-description.ts';
import { dataRefShape, originShape, savedFolderShape, triggerShape } from '../../domain/run/event-shape.ts';
import {
  aCount,
  aFlag,
  aNumber,
  aText,
  aTime,
  type Check,
  kindOf,
  listOf,
  objectOf,
  oneOf,
  optional,
  allowNull,
  valuesOf,
} from '../../domain/run/shape.ts';
import { storedShape } from './stored-shape.ts';

const plan = storedShape(PLAN_PARTS.Plan);
const budget = storedShape(PLAN_PARTS.Budget);

const input = kindOf<'inline' | 'ref'>('kind', {
  inline: objectOf({ text: aText }),
  ref: objectOf({ ref: dataRefShape }),
});

const given = objectOf({
  output: allowNull(dataRefShape),
  outputs: valuesOf(dataRefShape),
  passed: optional(aFlag),
  ranIn: optional(aText),
});

const continued = objectOf({
  runId: aText,
  execKey: aText,
  savedAtMs: aTime,
  sessionId: aText,
  folders: listOf(savedFolderShape),
  turns: allowNull(aCount),
  ended: allowNull(objectOf({ code: aText, message: aText })),
});
const stageLimits = objectOf({ timeoutMs: aNumber, budget: optional(budget) });

/** A claim of a process that starts the run (`app/start/claim-run-id.ts`). */
const claim = objectOf({ process: aText, nonce: aText });

const SHAPES: Readonly<Record<string, Check>> = {
  admission: objectOf({
    plan,
    hostQueue: aText,
    storeQueue: optional(aText),
    leaseQueue: optional(aText),
    hostId: aText,
    input: allowNull(input),
    serverId: aText,
    behaviour: aCount,
    recordsBoots: aFlag,
    historyLimit: objectOf({ events: aCount, bytes: aCount }),
    executionId: aText,
    mounts: valuesOf(aText),
    // Only for a run that uses outputs of an earlier run.
    origin: optional(originShape),
    trigger: optional(triggerShape),
    given: optional(valuesOf(given)),
    continued: optional(valuesOf(continued)),
    limits: optional(
      objectOf({ stages: valuesOf(stageLimits), timeoutMs: optional(aNumber), budget: optional(budget) }),
    ),
    fetchedSkills: optional(listOf(objectOf({ source: aText, sha256: aText, sizeBytes: aCount }))),
    uploads: optional(valuesOf(aText)),
    provenKey: optional(aText),
    command: optional(objectOf({ workflowId: aText, runId: aText, activityId: aText })),
  }),
  refusal: objectOf({ executionId: aText, code: aText, message: aText }),
  plan,
  client: objectOf({ baseDir: aText }),
  start: claim,
  source: objectOf({
    path: allowNull(aText),
    text: allowNull(aText),
    params: valuesOf(aText),
    mode: allowNull(oneOf('mock')),
  }),
  manifest: objectOf({ version: aCount, refs: listOf(dataRefShape) }),
  // A request with a key for many runs (`app/service/keyed-actions.ts`).
  actions: objectOf({ hash: aText, chosen: allowNull(objectOf({ runIds: listOf(aText), hasMore: aFlag })) }),
};

/** The shapes of records that are known by the beginning of their name. */
const PREFIXED: readonly (readonly [string, Check])[] = [
  ['start-', claim],
  ['prepared-', objectOf({ generation: aCount })],
  ['items-', objectOf({ count: aCount, list: dataRefShape })],
];

/** Returns the problem of a record with this name; null: the record is valid, or its name is not known here. */
export function findRecordProblem(name: string, value: unknown): string | null {
  const check = Object.hasOwn(SHAPES, name) ? SHAPES[name] : PREFIXED.find(([prefix]) => name.startsWith(prefix))?.[1];
  return check === undefined ? null : check(value, name);
}
