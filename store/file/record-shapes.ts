/** What the records of a run have to look like when they are read back; see `activities/admission/admit.ts` and its neighbours for who writes them. */
import {
  AGENT_MODES,
  type AgentSkill,
  type EnvValue,
  FIELD_TYPES,
  type InputPlan,
  ISOLATION_LEVELS,
  type ListPlan,
  LLM_PROVIDERS,
  MOUNT_MODES,
  type MountSource,
  type PartOutput,
  type Plan,
  PLAN_KINDS,
  SANDBOX_MODES,
  type StdinPlan,
  TIMEOUT_ANSWERS,
  type WorkPlan,
  type WorkspaceSource,
} from '../../domain/plan/plan.ts';
import { dataRefShape, originShape, savedFolderShape } from '../../domain/run/event-shape.ts';
import {
  aCount,
  aFlag,
  anything,
  aNumber,
  aText,
  aTime,
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
const approval = objectOf({
  message: aText,
  by: optional(listOf(aText)),
  timeoutMs: optional(orNull(aNumber)),
  onTimeout: optional(oneOf(...TIMEOUT_ANSWERS)),
  fields: optional(
    listOf(
      objectOf({
        name: aText,
        type: optional(oneOf(...FIELD_TYPES)),
        required: optional(aFlag),
        description: optional(aText),
        choices: optional(listOf(aText)),
      }),
    ),
  ),
});
const wait = objectOf({
  forMs: optional(orNull(aNumber)),
  untilMs: optional(orNull(aNumber)),
  until: optional(aText),
});
const part = objectOf({
  source: aText,
  stages: listOf(aText),
  output: kindOf<PartOutput['kind']>('kind', {
    stage: objectOf({ stage: aText }),
    merge: objectOf({ of: listOf(objectOf({ name: aText, stage: aText })) }),
  }),
});
const source = kindOf<MountSource['kind']>('kind', {
  host: objectOf({ path: aText }),
  'spec-folder': objectOf({ path: aText }),
});
const skill = kindOf<AgentSkill['kind']>('kind', {
  agent: objectOf({ name: aText }),
  file: objectOf({ source }),
  remote: objectOf({ repository: aText, skill: orNull(aText) }),
  cli: objectOf({ name: aText }),
  mcp: objectOf({ name: aText }),
  image: objectOf({ image: aText, guestPath: aText, readOnly: aFlag }),
  server: objectOf({ command: aText, args: listOf(aText), env: listOf(env) }),
  inline: objectOf({ name: aText, content: aText }),
});
const llm = objectOf({
  provider: oneOf(...LLM_PROVIDERS),
  model: orNull(aText),
  baseUrl: orNull(aText),
  apiKeyEnv: orNull(aText),
  credentialProxy: aFlag,
  price: optional(objectOf({ inputUsd: aNumber, cachedInputUsd: optional(aNumber), outputUsd: aNumber })),
});
const budget = objectOf({
  maxCostUsd: optional(aNumber),
  maxTokens: optional(aCount),
  maxTurns: optional(aCount),
});
const agent = objectOf({
  mode: optional(oneOf(...AGENT_MODES)),
  prompt: aText,
  llm: optional(orNull(llm)),
  skills: optional(listOf(skill)),
  env: optional(listOf(env)),
  messaging: optional(aFlag),
  budget: optional(budget),
  played: optional(aFlag),
});
const stepMachine = objectOf({
  source,
  params: optional(anything),
  llm: optional(orNull(llm)),
  skills: optional(listOf(skill)),
  env: optional(listOf(env)),
  budget: optional(budget),
});
const edge = either(aText, objectOf({ stage: aText, on: oneOf('success', 'end', 'failure') }));
const each = objectOf({
  list: kindOf<ListPlan['kind']>('kind', {
    inline: objectOf({ items: listOf(anything) }),
    'stage-output': objectOf({ stage: aText, path: listOf(aText) }),
  }),
  maxParallel: aCount,
  failFast: aFlag,
  allowFailures: aCount,
});
const mock = objectOf({ output: optional(aText), exitCode: optional(aCount) });
const stage = objectOf({
  id: aText,
  each: optional(each),
  scope: optional(orNull(aText)),
  after: optional(listOf(edge)),
  work: kindOf<WorkPlan['kind']>('kind', {
    command: objectOf({ ...command, stdin, service: optional(aFlag) }),
    approval,
    wait,
    part,
    agent,
    skill: stepMachine,
    shell: objectOf({ env: optional(listOf(env)) }),
    mock,
  }),
  mock: optional(mock),
  outputSchema: optional(anything),
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
  workspace: optional(
    objectOf({
      from: kindOf<WorkspaceSource['kind']>('kind', {
        folder: objectOf({ source, ref: orNull(aText), includeDirty: aFlag }),
        url: objectOf({ url: aText, ref: orNull(aText) }),
        stage: objectOf({ stage: aText }),
      }),
      guestPath: aText,
    }),
  ),
  outputFile: optional(orNull(aText)),
  timeoutMs: optional(aNumber),
  retry: optional(
    objectOf({
      maxAttempts: aCount,
      backoffMs: aNumber,
      factor: optional(aNumber),
      maxBackoffMs: optional(aNumber),
      nonRetryable: optional(listOf(aText)),
    }),
  ),
  continueOnError: optional(aFlag),
  anyFailure: optional(aFlag),
  finally: optional(aFlag),
  maxOutputBytes: optional(aNumber),
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
  image: optional(objectOf({ kind: oneOf('dev', 'disk'), sha256: optional(aText) })),
  needs: optional(
    objectOf({
      network: optional(aFlag),
      image: optional(aText),
      guestImage: optional(aText),
      kernel: optional(aText),
      initramfs: optional(aText),
      snapshot: optional(aText),
    }),
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
  timeoutMs: optional(aNumber),
  graceMs: optional(aNumber),
  budget: optional(budget),
  hostVariables: listOf(aText),
});

const input = kindOf<'inline' | 'ref'>('kind', {
  inline: objectOf({ text: aText }),
  ref: objectOf({ ref: dataRefShape }),
});

const given = objectOf({
  output: orNull(dataRefShape),
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
  turns: orNull(aCount),
  ended: orNull(objectOf({ code: aText, message: aText })),
});
const stageLimits = objectOf({ timeoutMs: aNumber, budget: optional(budget) });

const SHAPES: Readonly<Record<string, Check>> = {
  admission: objectOf({
    plan,
    hostQueue: aText,
    storeQueue: optional(aText),
    leaseQueue: optional(aText),
    hostId: aText,
    input: orNull(input),
    serverId: aText,
    behaviour: aCount,
    recordsBoots: aFlag,
    historyLimit: objectOf({ events: aCount, bytes: aCount }),
    executionId: aText,
    mounts: valuesOf(aText),
    // Of a run that takes outputs of an earlier one.
    origin: optional(originShape),
    given: optional(valuesOf(given)),
    continued: optional(valuesOf(continued)),
    limits: optional(
      objectOf({ stages: valuesOf(stageLimits), timeoutMs: optional(aNumber), budget: optional(budget) }),
    ),
    fetchedSkills: optional(listOf(objectOf({ source: aText, sha256: aText, sizeBytes: aCount }))),
    command: optional(objectOf({ workflowId: aText, runId: aText, activityId: aText })),
  }),
  refusal: objectOf({ executionId: aText, code: aText, message: aText }),
  plan,
  client: objectOf({ baseDir: aText }),
  source: objectOf({
    path: orNull(aText),
    text: orNull(aText),
    params: valuesOf(aText),
    mode: orNull(oneOf('mock')),
  }),
  manifest: objectOf({ version: aCount, refs: listOf(dataRefShape) }),
};

/** Of the records that are known by the beginning of their name. */
const PREFIXED: readonly (readonly [string, Check])[] = [
  ['prepared-', objectOf({ generation: aCount })],
  ['items-', objectOf({ count: aCount, list: dataRefShape })],
];

/** What is wrong with a record of this name; null when it is as it should be, or of a name that is not known here. */
export function recordProblem(name: string, value: unknown): string | null {
  const check = Object.hasOwn(SHAPES, name) ? SHAPES[name] : PREFIXED.find(([prefix]) => name.startsWith(prefix))?.[1];
  return check === undefined ? null : check(value, name);
}
