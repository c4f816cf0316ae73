/** What the records of a run have to look like when they are read back; see `activities/admit.ts` and its neighbours for who writes them. */
import {
  type EnvValue,
  type InputPlan,
  ISOLATION_LEVELS,
  MOUNT_MODES,
  type MountSource,
  type Plan,
  PLAN_KINDS,
  SANDBOX_MODES,
  type StdinPlan,
  type WorkPlan,
} from '../../domain/plan/plan.ts';
import { dataRefShape } from '../../domain/run/event-shape.ts';
import {
  aCount,
  anything,
  aNumber,
  aText,
  type Check,
  either,
  kindOf,
  listOf,
  objectOf,
  oneOf,
  optional,
  orNull,
  valuesOf,
} from '../../domain/run/shape.ts';

/** A plan as it travels (`domain/plan/wire.ts`): shape alone. Its rules were applied at admission, and may have changed since. */
const env = objectOf({
  name: aText,
  value: kindOf<EnvValue['kind']>('kind', {
    literal: objectOf({ text: aText }),
    'from-host': objectOf({ fromHost: aText }),
  }),
});
const stdin = optional(
  kindOf<StdinPlan['kind']>('kind', { none: anything, 'stage-output': objectOf({ stage: aText }) }),
);
const command = { program: aText, args: optional(listOf(aText)), cwd: optional(aText), env: optional(listOf(env)) };
const edge = either(aText, objectOf({ stage: aText, on: oneOf('success', 'end', 'failure') }));
const stageFields = objectOf({
  id: aText,
  scope: optional(orNull(aText)),
  after: optional(listOf(edge)),
  work: optional(kindOf<WorkPlan['kind']>('kind', { command: objectOf({ ...command, stdin }) })),
  // As the first builds said them.
  dependsOn: optional(listOf(aText)),
  run: optional(objectOf(command)),
  stdin,
  input: optional(
    kindOf<InputPlan['kind']>('kind', {
      none: anything,
      'run-input': anything,
      carry: objectOf({ stage: aText }),
      merge: objectOf({ stages: listOf(aText) }),
    }),
  ),
  inputs: optional(listOf(objectOf({ fromStage: aText, output: aText, guestPath: aText }))),
  outputs: optional(listOf(objectOf({ name: aText, guestPath: aText }))),
  outputFile: optional(orNull(aText)),
  timeoutMs: optional(aNumber),
  retry: optional(objectOf({ maxAttempts: aCount, backoffMs: aNumber })),
  maxOutputBytes: optional(aNumber),
});
/** Its work stands under one of two keys. */
const stage: Check = (value, at) => {
  const problem = stageFields(value, at);
  if (problem !== null || Object.hasOwn(value as object, 'work')) return problem;
  return Object.hasOwn(value as object, 'run') ? null : `${at}.work is not an object`;
};
const source = kindOf<MountSource['kind']>('kind', {
  host: objectOf({ path: aText }),
  'spec-folder': objectOf({ path: aText }),
});
const sandbox = objectOf({
  mode: optional(oneOf(...SANDBOX_MODES)),
  isolation: optional(oneOf(...ISOLATION_LEVELS)),
  memoryMib: optional(aNumber),
  vcpus: optional(aNumber),
  diskMib: optional(aNumber),
  mounts: optional(
    listOf(
      objectOf({ hostPath: optional(aText), source: optional(source), guestPath: aText, mode: oneOf(...MOUNT_MODES) }),
    ),
  ),
});
const plan = objectOf({
  version: aCount,
  kind: oneOf(...PLAN_KINDS),
  name: aText,
  stages: listOf(stage),
  scopes: listOf(objectOf({ id: aText, stages: optional(listOf(aText)), sandbox: optional(sandbox) })),
  output: kindOf<Plan['output']['kind']>('kind', {
    stage: objectOf({ stage: aText }),
    merge: objectOf({ stages: listOf(aText) }),
  }),
  maxParallel: aCount,
  hostVariables: listOf(aText),
});

const input = kindOf<'inline' | 'ref'>('kind', {
  inline: objectOf({ text: aText }),
  ref: objectOf({ ref: dataRefShape }),
});

const SHAPES: Readonly<Record<string, Check>> = {
  admission: objectOf({
    plan,
    hostQueue: aText,
    storeQueue: optional(aText),
    leaseQueue: optional(aText),
    hostId: aText,
    input: orNull(input),
    serverId: aText,
    // Absent in records of earlier builds.
    behaviour: optional(aCount),
    executionId: optional(aText),
    mounts: optional(valuesOf(aText)),
  }),
  refusal: objectOf({ executionId: aText, code: aText, message: aText }),
  plan,
  client: objectOf({ baseDir: aText }),
  manifest: objectOf({ version: aCount, refs: listOf(dataRefShape) }),
};

/** Of the records that are known by the beginning of their name. */
const PREFIXED: readonly (readonly [string, Check])[] = [['prepared-', objectOf({ generation: aCount })]];

/** What is wrong with a record of this name; null when it is as it should be, or of a name that is not known here. */
export function recordProblem(name: string, value: unknown): string | null {
  const check = Object.hasOwn(SHAPES, name) ? SHAPES[name] : PREFIXED.find(([prefix]) => name.startsWith(prefix))?.[1];
  return check === undefined ? null : check(value, name);
}
