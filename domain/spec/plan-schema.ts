import { EGRESS_LIMITS } from '../plan/egress.ts';
import * as z from 'zod';
import { machineBytes, machinePlanOf, dataTakenBy, mayLackOutput } from '../pipeline/machine-plan.ts';
import { SERVICE_TIMEOUT_MS } from '../plan/defaults.ts';
import {
  AGENT_MODES,
  type ConditionPlan,
  type ConditionValue,
  FIELD_TYPES,
  type JsonValue,
  ISOLATION_LEVELS,
  LLM_PROVIDERS,
  MOUNT_MODES,
  ON_LIMITS,
  PLAN_KINDS,
  PLAN_LIMITS,
  PLAN_VERSION,
  type Plan,
  RETENTION,
  SANDBOX_MODES,
  type TextPlace,
  TIMEOUT_ANSWERS,
} from '../plan/plan.ts';
import { holdsOnlyWith } from '../plan/both-conditions.ts';
import { fromWire, planBytes, type PlanWire, type WorkWire } from '../plan/wire.ts';
import {
  approvalOf,
  commandOf,
  mockOf,
  environmentOf,
  environmentsOfServers,
  hasText,
  hostVariablesOf,
  needsVm,
  partOf,
  stagesBefore,
  waitOf,
} from '../plan/work.ts';
import { addressProblem, isRefName, workspaceGiver } from '../plan/workspace.ts';
import { instanceProblem, isPlanId } from '../run/instance.ts';
import { utf8Length } from '../units/utf8.ts';
import {
  DURATIONS,
  HOST_LABEL,
  NAME,
  type NumberRange,
  RANGES,
  REPOSITORY,
  RESERVED_LABELS,
  applyScale,
  SCALES,
  VARIABLE,
  VARIABLE_LIMITS,
} from './grammar/values.ts';
import { checkCondition, checkText } from './expression/check.ts';
import { EXPRESSION_LIMITS } from './expression/limits.ts';
import { takenCount, writableIn } from './compile-items.ts';
import { addressBits, hostName, networkOf } from './egress-rules.ts';
import { cycles } from './graph.ts';
import { itemPartProblems, ownerProblems } from './item-part-problems.ts';
import { loopProblems } from './loop-problems.ts';
import { OUTPUT_SCHEMA_LIMITS } from './output-schema.ts';
import { toleratedPartProblems } from './tolerated-part-problems.ts';
import { sharesSource } from './mount-source.ts';
import { serviceProblems, servicePlanProblems } from './service-problems.ts';
import { workspaceProblems } from './workspace-problems.ts';
import { guestPathRefusal, mustStayWritable, normalizeAbsolute, overlaps, relativePath } from './paths.ts';
import { SOURCE_LIMITS } from './source.ts';

/** At most this many problems are named. */
const PROBLEMS_LIMIT = 50;

/** A plan that says its defaults as well is larger than it need be. */
const RECEIVED_BYTES = 2 * PLAN_LIMITS.planBytes;

const name = z
  .string()
  .regex(NAME, 'letters, digits, `.`, `_`, `-`, a letter or digit first')
  .max(PLAN_LIMITS.nameLength);
const scopeId = z
  .string()
  // One that is too long is told so, and nothing else.
  .refine((id) => isPlanId(id.slice(0, PLAN_LIMITS.nameLength)), 'letters, digits, `.`, `_`, `-`')
  .max(PLAN_LIMITS.nameLength);
const text = z.string().refine((value) => !value.includes('\0'), 'no zero byte');
const whole = (min: number, max: number) => z.number().int().min(min).max(max);
/** The range of a spec in a plan's unit. */
const amountWithin = ({ min, max }: NumberRange) => z.number().min(min).max(max);
const within = ({ min, max }: NumberRange, scale?: number) => whole(applyScale(min, scale), applyScale(max, scale));
/** Of what a date can be. */
const LAST_DATE_MS = 8.64e15;
const absolute = text.refine((path) => normalizeAbsolute(path) === path, 'an absolute path without `.` and `..`');
const guestPath = absolute.refine((path) => guestPathRefusal(path) === null, 'a guest path outside of system folders');
const variable = z.string().regex(VARIABLE, 'letters, digits and `_`').max(VARIABLE_LIMITS.nameLength);

const env = z.strictObject({
  name: variable,
  value: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('literal'), text }),
    z.strictObject({ kind: z.literal('from-host'), fromHost: variable, ifUnset: z.literal('empty').optional() }),
  ]),
});

const run = z
  .strictObject({ program: text.min(1), args: z.array(text), cwd: text.startsWith('/'), env: z.array(env) })
  .partial({ args: true, cwd: true, env: true });
const stdin = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({ kind: z.literal('stage-output'), stage: name }),
]);
const relative = text.refine(
  (path) => path !== '' && relativePath(path) === path,
  "a path from the spec's folder, without `.` and `..` but for `.` alone",
);
const source = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('host'), path: absolute }),
  z.strictObject({ kind: z.literal('spec-folder'), path: relative }),
]);

const label = text.min(1).max(256);
const approval = z.strictObject({
  kind: z.literal('approval'),
  message: text.min(1).max(PLAN_LIMITS.messageCharacters),
  by: z.array(label).max(PLAN_LIMITS.approvers).optional(),
  timeoutMs: whole(DURATIONS.approval.minMs, DURATIONS.approval.maxMs).nullable().optional(),
  onTimeout: z.enum(TIMEOUT_ANSWERS).optional(),
  fields: z
    .array(
      z
        .strictObject({
          name,
          type: z.enum(FIELD_TYPES).optional(),
          required: z.boolean().optional(),
          description: text.max(PLAN_LIMITS.messageCharacters).optional(),
          choices: z.array(label).max(PLAN_LIMITS.choices).optional(),
        })
        .refine(
          ({ type, choices }) => (type === 'choice') === (choices ?? []).length > 0,
          '`choices` with the type `choice`, and with no other',
        ),
    )
    .max(PLAN_LIMITS.approvalFields)
    .optional(),
});
const wait = z
  .strictObject({
    kind: z.literal('wait'),
    forMs: whole(DURATIONS.wait.minMs, DURATIONS.wait.maxMs).nullable().optional(),
    untilMs: whole(-LAST_DATE_MS, LAST_DATE_MS).nullable().optional(),
    until: text.min(1).optional(),
  })
  .refine(
    ({ forMs, untilMs, until }) => [forMs, untilMs, until].filter((each) => (each ?? null) !== null).length === 1,
    'one of `forMs`, `untilMs` and `until`',
  );
const reference = text.min(1).max(PLAN_LIMITS.referenceCharacters);
const segment = z.string().regex(NAME).max(PLAN_LIMITS.referenceCharacters);
const skill = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('agent'), name }),
  z.strictObject({ kind: z.literal('file'), source }),
  z.strictObject({ kind: z.literal('remote'), repository: reference.regex(REPOSITORY), skill: segment.nullable() }),
  z.strictObject({ kind: z.enum(['cli', 'mcp']), name }),
  z.strictObject({ kind: z.literal('image'), image: reference, guestPath, readOnly: z.boolean() }),
  z.strictObject({ kind: z.literal('server'), command: text.min(1), args: z.array(text), env: z.array(env) }),
  z.strictObject({ kind: z.literal('inline'), name, content: text }),
]);
const llm = z.strictObject({
  provider: z.enum(LLM_PROVIDERS),
  model: reference.nullable(),
  baseUrl: reference.nullable(),
  apiKeyEnv: variable.nullable(),
  credentialProxy: z.boolean(),
  price: z
    .strictObject({
      inputUsd: amountWithin(RANGES.priceUsd),
      cachedInputUsd: amountWithin(RANGES.priceUsd).optional(),
      outputUsd: amountWithin(RANGES.priceUsd),
    })
    .optional(),
});
const budget = z
  .strictObject({
    maxCostUsd: amountWithin(RANGES.costUsd).optional(),
    maxTokens: within(RANGES.tokens).optional(),
    maxTurns: within(RANGES.turns).optional(),
  })
  .refine((limits) => Object.values(limits).some((limit) => limit !== undefined), 'at least one limit');
const agent = z
  .strictObject({
    kind: z.literal('agent'),
    mode: z.enum(AGENT_MODES).optional(),
    prompt: text,
    llm: llm.nullable().optional(),
    skills: z.array(skill).max(PLAN_LIMITS.skills).optional(),
    env: z.array(env).optional(),
    messaging: z.boolean().optional(),
    budget: budget.optional(),
    played: z.literal(true).optional(),
  })
  .refine(({ mode, prompt }) => mode === 'interactive' || prompt.trim() !== '', 'a prompt, or the mode `interactive`');
const stepMachine = z.strictObject({
  kind: z.literal('skill'),
  source,
  params: z
    .custom<Readonly<Record<string, JsonValue>>>(
      (value) => isMapping(value) && isShallow(value, SOURCE_LIMITS.depth),
      'a mapping that is not nested too deep',
    )
    .refine((value) => (jsonBytes(value) ?? Infinity) <= PLAN_LIMITS.skillParamsBytes, 'smaller params')
    .optional(),
  llm: llm.nullable().optional(),
  skills: z.array(skill).max(PLAN_LIMITS.skills).optional(),
  env: z.array(env).optional(),
  budget: budget.optional(),
  code: z.strictObject({ skill: text, version: text, codeHash: z.string().regex(/^[0-9a-f]{64}$/) }).optional(),
  played: z.literal(true).optional(),
});
const mock = z.strictObject({
  // No program takes it, so it may hold a zero byte.
  output: z
    .string()
    .refine((value) => utf8Length(value) <= PLAN_LIMITS.mockBytes, 'a shorter output')
    .optional(),
  exitCode: within(RANGES.exitCode).optional(),
});
const part = z.strictObject({
  kind: z.literal('part'),
  source: text.min(1).max(PLAN_LIMITS.referenceCharacters),
  stages: z.array(name).min(1).max(PLAN_LIMITS.stages),
  output: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('stage'), stage: name }),
    z.strictObject({
      kind: z.literal('merge'),
      of: z
        .array(z.strictObject({ name, stage: name }))
        .min(1)
        .max(PLAN_LIMITS.stages),
    }),
  ]),
});
const works = {
  command: run.extend({ kind: z.literal('command'), stdin: stdin.optional(), service: z.literal(true).optional() }),
  approval,
  wait,
  part,
  agent,
  skill: stepMachine,
  shell: z.strictObject({ kind: z.literal('shell'), env: z.array(env).optional() }),
  mock: mock.extend({ kind: z.literal('mock') }),
} satisfies Record<WorkWire['kind'], z.ZodType<WorkWire>>;
const work = z.discriminatedUnion('kind', [
  works.command,
  works.approval,
  works.wait,
  works.part,
  works.agent,
  works.skill,
  works.shell,
  works.mock,
]);
const edge = z.union([name, z.strictObject({ stage: name, on: z.enum(['success', 'end', 'failure']) })]);
/** What JSON has, no deeper than a spec may write it. */
const conditionValue = z.custom<ConditionValue>(
  (value) => isShallow(value, SOURCE_LIMITS.depth),
  'JSON that is not nested too deep',
);
const condition = z.strictObject({
  source: text.min(1).max(EXPRESSION_LIMITS.characters),
  stages: z.array(name).max(PLAN_LIMITS.stages),
  params: z.record(name, conditionValue),
});
const names = z.array(name).min(1).max(PLAN_LIMITS.stages);

const each = z.strictObject({
  list: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('inline'), items: z.array(z.json()).max(PLAN_LIMITS.items) }),
    z.strictObject({ kind: z.literal('stage-output'), stage: name, path: z.array(text).max(PLAN_LIMITS.listPath) }),
  ]),
  maxParallel: within(RANGES.maxParallel),
  failFast: z.boolean(),
  allowFailures: whole(0, PLAN_LIMITS.items),
});

const texts = z.strictObject({
  sources: z.array(text.min(1).max(EXPRESSION_LIMITS.characters)).min(1).max(PLAN_LIMITS.textSources),
  stages: z.array(name).max(PLAN_LIMITS.stages),
  params: z.record(name, conditionValue),
  texts: z
    .array(
      z.strictObject({
        place: z.discriminatedUnion('kind', [
          z.strictObject({ kind: z.literal('arg'), index: z.number().int().min(0) }),
          z.strictObject({ kind: z.literal('env'), name: variable }),
          z.strictObject({ kind: z.literal('message') }),
          z.strictObject({ kind: z.literal('prompt') }),
          z.strictObject({ kind: z.literal('until') }),
          z.strictObject({ kind: z.literal('param'), name: text }),
        ]),
        parts: z.array(z.union([text, z.number().int().min(0)])).min(1),
      }),
    )
    .min(1),
});

const ref = reference.refine(isRefName, 'the name of a branch, tag or commit').nullable();
const workspace = z.strictObject({
  from: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('folder'), source, ref, includeDirty: z.boolean() }),
    z.strictObject({
      kind: z.literal('url'),
      url: reference.refine((url) => addressProblem(url) === null, 'an https:// address without a user'),
      ref,
    }),
    z.strictObject({ kind: z.literal('stage'), stage: name }),
  ]),
  guestPath,
});

const stage = z.strictObject({
  id: name,
  scope: scopeId.nullable(),
  each: each.optional(),
  of: name.optional(),
  loop: z
    .strictObject({
      until: condition,
      maxVisits: within(RANGES.visits),
      onLimit: z.enum(ON_LIMITS),
    })
    .optional(),
  visits: whole(1, PLAN_LIMITS.stageVisits).optional(),
  again: names.optional(),
  after: z.array(edge).max(PLAN_LIMITS.stages),
  dependsOn: z.array(name).max(PLAN_LIMITS.stages),
  work,
  texts: texts.optional(),
  mock,
  // Whether it is a schema, admission asks where that can be ended.
  outputSchema: z
    .custom<JsonValue>(
      (value) => isMapping(value) && isShallow(value, SOURCE_LIMITS.depth),
      'a mapping that is not nested too deep',
    )
    .refine((value) => (jsonBytes(value) ?? Infinity) <= OUTPUT_SCHEMA_LIMITS.schemaBytes, 'a shorter schema'),
  run,
  stdin,
  input: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('none') }),
    z.strictObject({ kind: z.literal('run-input') }),
    z.strictObject({ kind: z.literal('carry'), stage: name }),
    z.strictObject({ kind: z.literal('merge'), stages: names }),
  ]),
  when: condition.partial({ stages: true, params: true }).nullable(),
  inputs: z.array(z.strictObject({ fromStage: name, output: name, guestPath, optional: z.boolean().optional() })),
  outputs: z.array(z.strictObject({ name, guestPath })),
  workspace: workspace.optional(),
  outputFile: guestPath.nullable(),
  timeoutMs: z.union([within(RANGES.timeoutSecs, SCALES.msPerSecond), z.literal(SERVICE_TIMEOUT_MS)]),
  retry: z.strictObject({
    maxAttempts: within(RANGES.attempts),
    backoffMs: within(RANGES.backoffSecs, SCALES.msPerSecond),
    factor: z.number().min(RANGES.backoff.min).max(RANGES.backoff.max).optional(),
    maxBackoffMs: within(RANGES.backoffSecs, SCALES.msPerSecond).optional(),
    // Codes of another build are not known here.
    nonRetryable: z
      .array(
        z
          .string()
          .regex(/^(?:exit:(?:0|[1-9]\d{0,2})|[a-z]+\/[a-z-]+)$/, 'an error code or `exit:N`')
          .max(64),
      )
      .max(PLAN_LIMITS.nonRetryable)
      .optional(),
  }),
  continueOnError: z.literal(true),
  anyFailure: z.literal(true),
  finally: z.literal(true),
  // A spec counts in MiB, a plan in bytes.
  maxOutputBytes: whole(1, applyScale(RANGES.outputMib.max, SCALES.bytesPerMib)),
});

const ports = z.union([z.literal('any'), z.array(whole(1, 65_535)).min(1).max(EGRESS_LIMITS.ports)]);
const hostText = text.refine((host) => hostName(host) === host, 'the name of a host in lower case');
const rules = z
  .array(
    z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('host'), name: hostText, ports }),
      z.strictObject({ kind: z.literal('subdomains'), name: hostText, ports }),
      z.strictObject({
        kind: z.literal('network'),
        cidr: text.max(64).refine((cidr) => networkOf(cidr) === cidr, 'a network, such as 192.0.2.0/24'),
        ports,
      }),
    ]),
  )
  .max(EGRESS_LIMITS.rules);
const egress = z.strictObject({
  allow: z.union([z.literal('any'), rules]),
  deny: rules,
  services: z
    .array(
      z.strictObject({
        name: z
          .string()
          .regex(HOST_LABEL)
          .refine((label) => !RESERVED_LABELS.includes(label), 'a name that no guest has'),
        host: text.refine((host) => hostName(host) === host || addressBits(host) !== null, 'a host or an address'),
        port: whole(1, 65_535),
      }),
    )
    .max(EGRESS_LIMITS.services)
    .refine((list) => new Set(list.map(({ name: label }) => label)).size === list.length, 'names that differ'),
});

const sandbox = z.strictObject({
  mode: z.enum(SANDBOX_MODES),
  isolation: z.enum(ISOLATION_LEVELS),
  memoryMib: within(RANGES.memoryMib),
  vcpus: within(RANGES.vcpus),
  diskMib: within(RANGES.diskMib),
  mounts: z
    .array(
      z
        .strictObject({
          hostPath: absolute.optional(),
          source: source.optional(),
          guestPath,
          mode: z.enum(MOUNT_MODES),
        })
        .refine(
          (mount) => (mount.hostPath === undefined) !== (mount.source === undefined),
          'either `source` or `hostPath`',
        ),
    )
    .max(PLAN_LIMITS.mountsPerScope),
  image: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('dev') }),
    z.strictObject({ kind: z.literal('disk'), sha256: text.regex(/^[0-9a-f]{64}$/) }),
  ]),
  egress,
  keepOnFailureMs: whole(RETENTION.minMs, RETENTION.maxMs),
  needs: z
    .strictObject({
      network: z.literal(true),
      image: reference,
      guestImage: reference,
      kernel: absolute,
      initramfs: absolute,
      snapshot: reference,
    })
    .partial(),
});

const plan = z.strictObject({
  version: z.literal(PLAN_VERSION),
  kind: z.enum(PLAN_KINDS),
  name,
  // Everything but these may be left out: see `domain/plan/wire.ts`.
  stages: z
    .array(
      stage
        .partial()
        .required({ id: true })
        .refine(({ work: one, run: other }) => (one === undefined) !== (other === undefined), 'either `work` or `run`')
        .refine(({ work: one, stdin: beside }) => one === undefined || beside === undefined, '`stdin` stands in `work`')
        .refine(
          ({ after: one, dependsOn: other }) => one === undefined || other === undefined,
          'either `after` or `dependsOn`',
        ),
    )
    .min(1)
    .max(PLAN_LIMITS.stages),
  scopes: z
    .array(z.strictObject({ id: scopeId, stages: names.optional(), sandbox: sandbox.partial().optional() }))
    .max(PLAN_LIMITS.stages),
  output: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('stage'), stage: name }),
    z.strictObject({ kind: z.literal('merge'), stages: names }),
  ]),
  maxParallel: within(RANGES.maxParallel),
  timeoutMs: within(RANGES.runTimeoutSecs, SCALES.msPerSecond).optional(),
  graceMs: within(RANGES.graceSecs, SCALES.msPerSecond).optional(),
  budget: budget.optional(),
  hostVariables: z.array(variable),
});

/**
 * Checks a plan that comes from outside, completely: shape, limits, references, cycles, mounts. It may leave
 * out what equals a default. What passes can be run by the machine and the activities without a further look.
 * @returns the plan, or what is wrong with it, at most `PROBLEMS_LIMIT` of it, each with its path
 */
export function checkPlan(value: unknown): { readonly plan: Plan } | { readonly problems: readonly string[] } {
  const size = jsonBytes(value);
  if (size === null) return { problems: ['the plan is not JSON'] };
  if (size > RECEIVED_BYTES) return { problems: [tooLarge(size)] };
  const parsed = plan.safeParse(value);
  if (!parsed.success)
    return {
      problems: parsed.error.issues
        .slice(0, PROBLEMS_LIMIT)
        .map(({ path, message }) => `${path.join('.') || 'plan'}: ${message}`),
    };
  const received: PlanWire = parsed.data;
  const checked = fromWire(received);
  const bytes = planBytes(checked);
  if (bytes > PLAN_LIMITS.planBytes) return { problems: [tooLarge(bytes)] };
  const strays = [...duplicateProblems(checked), ...ownerProblems(checked)];
  if (strays.length > 0) return { problems: strays.slice(0, PROBLEMS_LIMIT) };
  const held = machineBytes(machinePlanOf(checked));
  if (held > PLAN_LIMITS.machineBytes)
    return {
      problems: [
        `the names and edges of the plan's stages have ${held} bytes; at most ${PLAN_LIMITS.machineBytes} are allowed`,
      ],
    };
  const problems = [
    ...scopeProblems(checked),
    ...itemProblems(checked),
    ...itemPartProblems(checked),
    ...partProblems(checked),
    ...loopProblems(checked),
    ...toleratedPartProblems(checked),
    ...referenceProblems(checked),
    ...mountProblems(checked),
    ...variableProblems(checked),
    ...conditionProblems(checked),
    ...textProblems(checked),
    ...finallyProblems(checked),
    ...workspaceProblems(checked),
    ...servicePlanProblems(checked),
    ...serviceProblems(checked).map(({ message }) => message),
  ];
  return problems.length > 0 ? { problems: problems.slice(0, PROBLEMS_LIMIT) } : { plan: checked };
}

function isMapping(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((each) => isShallow(each, levels - 1));
}

function tooLarge(bytes: number): string {
  return `the plan has ${bytes} bytes; at most ${PLAN_LIMITS.planBytes} are allowed`;
}

function jsonBytes(value: unknown): number | null {
  try {
    const json: string | undefined = JSON.stringify(value);
    return json === undefined ? null : utf8Length(json);
  } catch {
    // A cycle, a bigint or a getter that throws.
    return null;
  }
}

function duplicateProblems(checked: Plan): readonly string[] {
  const problems = [
    ...repeated(checked.stages.map(({ id }) => id)).map((id) => `two stages have the id ${id}`),
    ...repeated(checked.scopes.map(({ id }) => id)).map((id) => `two scopes have the id ${id}`),
  ];
  for (const { id, outputs, work, ...each } of checked.stages) {
    problems.push(
      ...repeated(outputs.map((output) => output.name)).map(
        (output) => `stage ${id} has two outputs with the name ${output}`,
      ),
    );
    problems.push(...repeated(stagesBefore(each)).map((other) => `stage ${id} depends on ${other} twice`));
    for (const variables of [environmentOf(work), ...environmentsOfServers(work)])
      problems.push(
        ...repeated(variables.map(({ name: variableName }) => variableName)).map(
          (twice) => `stage ${id} sets the variable ${twice} twice`,
        ),
      );
  }
  for (const { id, work } of checked.stages)
    problems.push(
      ...repeated((approvalOf(work)?.fields ?? []).map((field) => field.name)).map(
        (field) => `stage ${id} has two fields with the name ${field}`,
      ),
    );
  const outputs = checked.stages.reduce((sum, each) => sum + each.outputs.length, 0);
  if (outputs > PLAN_LIMITS.outputs)
    problems.push(`the plan has ${outputs} named outputs; at most ${PLAN_LIMITS.outputs} are allowed`);
  return problems;
}

/** Each stage is in exactly the scope that it names, and one that names none in none. */
function scopeProblems(checked: Plan): readonly string[] {
  const scopeOf = new Map(checked.stages.map(({ id, scope }) => [id, scope]));
  const problems = checked.scopes.flatMap((scope) =>
    scope.stages
      .filter((id) => scopeOf.get(id) !== scope.id)
      .map((id) => `scope ${scope.id} holds the stage ${id}, which is in ${scopeOf.get(id) ?? 'no'} scope`),
  );
  const held = new Map<string, number>();
  for (const id of checked.scopes.flatMap((scope) => scope.stages)) held.set(id, (held.get(id) ?? 0) + 1);
  for (const { id, scope, work } of checked.stages) {
    if (needsVm(work) && scope === null) problems.push(`stage ${id} needs a VM and has no scope`);
    if (!needsVm(work) && scope !== null) problems.push(`stage ${id} needs no VM and has the scope ${scope}`);
    if (scope !== null && held.get(id) !== 1) problems.push(`stage ${id} is held by ${held.get(id) ?? 0} scopes`);
  }
  return problems;
}

/** Each item has a VM of its own, and is its command's input. */
function itemProblems(checked: Plan): readonly string[] {
  const sizeOf = new Map(checked.scopes.map(({ id, stages }) => [id, stages.length]));
  return checked.stages.flatMap((stage) => {
    const { id, each: items, work, scope, input, outputs } = stage;
    if (items === undefined || partOf(work) !== null) return [];
    const taken = takenCount(stage);
    const instance = instanceProblem([{ part: id, item: PLAN_LIMITS.items - 1 }]);
    return [
      ...(commandOf(work) !== null ? [] : [`stage ${id} is done for each item and runs no command`]),
      ...(scope !== null && sizeOf.get(scope) !== 1 ? [`stage ${id} is done for each item and shares its VM`] : []),
      ...(input.kind === 'none' ? [] : [`stage ${id} is done for each item, which is its input, and has another`]),
      ...(outputs.length === 0 ? [] : [`stage ${id} is done for each item and has named outputs`]),
      ...(writableIn(checked.scopes, scope) === undefined
        ? []
        : [`stage ${id} is done for each item and has a writable mount`]),
      ...(taken <= PLAN_LIMITS.itemInputs
        ? []
        : [
            `stage ${id} is done for each item and takes ${taken} outputs, at most ${PLAN_LIMITS.itemInputs} are allowed`,
          ]),
      ...(instance === null ? [] : [`stage ${id} is done for each item: ${instance}`]),
    ];
  });
}

/** What is done of a part without its stages would be done twice, or never. */
function partProblems({ stages }: Plan): readonly string[] {
  const ids = new Set(stages.map(({ id }) => id));
  return stages.flatMap(
    ({ id, work: one, loop, continueOnError, inputs, outputs, outputFile, retry: { maxAttempts } }) => {
      const ended = partOf(one);
      if (ended === null) return [];
      const merged = ended.output.kind === 'merge' ? ended.output.of : [];
      return [
        ...ended.stages
          .filter((each) => !ids.has(each) || each === id)
          .map((each) => `stage ${id} ends a part with the stage ${each}, which is not another of the plan`),
        ...repeated(ended.stages).map((twice) => `stage ${id} ends a part that has the stage ${twice} twice`),
        ...repeated(merged.map((each) => each.name)).map((twice) => `stage ${id} merges two outputs as ${twice}`),
        ...repeated(merged.map(({ stage: source }) => source)).map((twice) => `stage ${id} merges ${twice} twice`),
        ...((continueOnError === true && loop !== undefined) ||
        maxAttempts > 1 ||
        inputs.length + outputs.length > 0 ||
        outputFile !== null
          ? [`stage ${id} ends a part and has what only a command has`]
          : []),
      ];
    },
  );
}

const NO_INPUT = { kind: 'none' } as const;

/** Whatever a stage takes is of a stage that it depends on, and nothing waits for itself. */
function referenceProblems(checked: Plan): readonly string[] {
  const index = new Map(checked.stages.map(({ id }, position) => [id, position]));
  const outputs = new Map(
    checked.stages.map(({ id, outputs: list }) => [id, new Set(list.map((output) => output.name))]),
  );
  const waits = new Set(checked.stages.flatMap(({ id, work }) => (waitOf(work) === null ? [] : [id])));
  const mayBeAbsent = new Set(checked.stages.flatMap((stage) => (mayLackOutput(stage) ? [stage.id] : [])));
  const problems: string[] = [];
  for (const stage of checked.stages) {
    const { id, after, input, inputs } = stage;
    // One with `finally` starts after all others, and finds what there is of them.
    const isLast = stage.finally === true;
    const dependencies = isLast
      ? new Set(checked.stages.flatMap((each) => (each.finally === true ? [] : [each.id])))
      : new Set(after.flatMap((each) => (each.on === 'success' ? [each.stage] : [])));
    for (const other of stagesBefore(stage))
      if (!index.has(other)) problems.push(`stage ${id} depends on ${other}, which does not exist`);
    for (const { stage: taken } of dataTakenBy(stage))
      if (!dependencies.has(taken))
        problems.push(`stage ${id} takes data of ${taken} and does not depend on its success`);
    for (const { stage: taken } of dataTakenBy(stage))
      if (waits.has(taken)) problems.push(`stage ${id} takes data of ${taken}, which waits and has none`);
    const demanded = inputs.filter(({ optional }) => !optional);
    for (const { stage: taken, output, outputs: named } of dataTakenBy({
      ...stage,
      inputs: demanded,
      input: NO_INPUT,
      texts: undefined,
    }))
      if (
        (output || named.length > 0) &&
        (isLast || (mayBeAbsent.has(taken) && !mayTakeNothing(stage, checked.stages[index.get(taken)!]!)))
      )
        problems.push(`stage ${id} takes data of ${taken}, which may fail or be passed and let it start without`);
    if (input.kind === 'merge')
      problems.push(...repeated(input.stages).map((source) => `stage ${id} merges ${source} twice`));
    const giver = workspaceGiver(stage);
    if (giver !== null && index.has(giver) && checked.stages[index.get(giver)!]!.workspace === undefined)
      problems.push(`stage ${id} goes on with the workspace of ${giver}, which has none`);
    for (const { fromStage, output } of inputs)
      if (index.has(fromStage) && !outputs.get(fromStage)!.has(output))
        problems.push(`stage ${id} takes the output ${output} of ${fromStage}, which does not have it`);
    problems.push(
      ...overlaps(inputs.map((each) => each.guestPath)).map(
        ([a, b]) => `stage ${id} has two inputs on or in each other: ${inputs[a]!.guestPath}, ${inputs[b]!.guestPath}`,
      ),
    );
  }
  const results = checked.output.kind === 'stage' ? [checked.output.stage] : checked.output.stages;
  for (const result of results)
    if (!index.has(result)) problems.push(`the output is of the stage ${result}, which does not exist`);
  if (checked.output.kind === 'merge')
    for (const result of results)
      if (waits.has(result)) problems.push(`the output merges ${result}, which waits and has none`);
  problems.push(...repeated(results).map((result) => `the output merges ${result} twice`));
  if (problems.length > 0) return problems;
  const groups = cycles(checked.stages.map((stage) => stagesBefore(stage).map((other) => index.get(other)!)));
  return groups.map(
    (group) =>
      `stages wait for each other: ${group
        .slice(0, 20)
        .map((position) => checked.stages[position]!.id)
        .join(', ')}`,
  );
}

/** It starts only where the other has run, or it ends a part with a merge, which leaves out what is absent. */
function mayTakeNothing(taker: Plan['stages'][number], source: Plan['stages'][number]): boolean {
  if (partOf(taker.work)?.output.kind === 'merge') return true;
  if (taker.when === null || source.when === null || source.continueOnError === true) return false;
  return holdsOnlyWith(taker.when, source.when);
}

/** A condition reads what its plan says that it reads: the run machine hands it nothing else. */
function conditionProblems(checked: Plan): readonly string[] {
  const others = checked.stages.flatMap((each) => (each.finally === true ? [] : [each.id]));
  return checked.stages.flatMap((stage) => {
    // Of several failures that may start it, only one has come.
    const ended = stage.after.filter(({ on }) => !(on === 'failure' && stage.anyFailure === true));
    const before = new Set(stage.finally === true ? others : ended.map((edge) => edge.stage));
    return [
      ...(stage.when === null ? [] : problemsOfCondition(stage.id, stage.when, 'when', before)),
      ...(stage.loop === undefined ? [] : problemsOfCondition(stage.id, stage.loop.until, 'loop.until', before)),
    ];
  });
}

function problemsOfCondition(
  id: string,
  condition: ConditionPlan,
  key: string,
  before: ReadonlySet<string>,
): readonly string[] {
  const read = checkCondition(condition.source);
  if ('problems' in read) return read.problems.map(({ message }) => `stage ${id}: ${key}: ${message}`);
  const stages = new Set(read.stages.map((reference) => reference.stage));
  const params = new Set(read.params.map((reference) => reference.name));
  return [
    ...repeated(condition.stages).map((twice) => `stage ${id}: ${key}.stages has ${twice} twice`),
    ...[...stages]
      .filter((each) => !condition.stages.includes(each))
      .map((each) => `stage ${id}: ${key}.stages lacks ${each}`),
    ...condition.stages
      .filter((each) => !stages.has(each))
      .map((each) => `stage ${id}: ${key}.stages has ${each}, which is not read`),
    ...condition.stages
      .filter((each) => !before.has(each))
      .map((each) => `stage ${id} is decided by ${each} and does not depend on it`),
    ...[...params]
      .filter((each) => !Object.hasOwn(condition.params, each))
      .map((each) => `stage ${id}: ${key}.params lacks ${each}`),
    ...Object.keys(condition.params)
      .filter((each) => !params.has(each))
      .map((each) => `stage ${id}: ${key}.params has ${each}, which is not read`),
  ];
}

/** Stages with `finally` stand behind all others, each for itself and in its own VM. */
function finallyProblems(checked: Plan): readonly string[] {
  const last = new Set(checked.stages.flatMap((each) => (each.finally === true ? [each.id] : [])));
  if (last.size === 0)
    return checked.graceMs === undefined ? [] : ['graceMs is of stages with `finally`; there is none'];
  const sizeOf = new Map(checked.scopes.map(({ id, stages }) => [id, stages.length]));
  const results = checked.output.kind === 'stage' ? [checked.output.stage] : checked.output.stages;
  return [
    ...(checked.graceMs === undefined ? ['graceMs is missing: stages have `finally`'] : []),
    ...(last.size === checked.stages.length ? ['every stage has `finally`'] : []),
    ...(last.size > PLAN_LIMITS.finallyStages
      ? [`${last.size} stages have \`finally\`; at most ${PLAN_LIMITS.finallyStages} may`]
      : []),
    ...results.filter((id) => last.has(id)).map((id) => `the output is of the stage ${id}, which has \`finally\``),
    ...checked.stages.flatMap(({ id, after, work, scope, each: items, outputs, input, finally: isLast }) => [
      ...after
        .filter(({ stage: other }) => last.has(other))
        .map((edge) => `stage ${id} depends on ${edge.stage}, which has \`finally\``),
      ...(isLast !== true
        ? []
        : [
            ...(after.length === 0 ? [] : [`stage ${id} has \`finally\` and depends on others`]),
            ...((commandOf(work) ?? mockOf(work)) !== null && items === undefined && outputs.length === 0
              ? []
              : [`stage ${id} has \`finally\` and is no plain command without named outputs`]),
            ...(scope !== null && sizeOf.get(scope) !== 1 ? [`stage ${id} has \`finally\` and shares its VM`] : []),
            ...(input.kind === 'none' || input.kind === 'run-input'
              ? []
              : [`stage ${id} has \`finally\` and the output of others as its input`]),
          ]),
    ]),
  ];
}

/** Texts stand in places that the work has, and read what the plan says that they read. */
function textProblems(checked: Plan): readonly string[] {
  return checked.stages.flatMap(({ id, work, each: items, texts: made }) => {
    if (made === undefined)
      return waitOf(work)?.until === undefined
        ? []
        : [`stage ${id}: nothing says what the time of its wait is made of`];
    const { sources, stages, params } = made;
    const problems = [...repeated(sources), ...repeated(stages)].map(
      (twice) => `stage ${id}: texts have ${twice} twice`,
    );
    const read = sources.map((source) => checkText(source, undefined, items !== undefined));
    for (const each of read)
      if ('problems' in each) problems.push(...each.problems.map(({ message }) => `stage ${id}: texts: ${message}`));
    const readable = read.flatMap((each) => ('problems' in each ? [] : [each]));
    const named = new Set(readable.flatMap((each) => each.stages.map((reference) => reference.stage)));
    const valued = new Set(readable.flatMap((each) => each.params.map((reference) => reference.name)));
    if (named.size !== stages.length || !stages.every((each) => named.has(each)))
      problems.push(`stage ${id}: texts.stages are not the stages that its texts read`);
    if (valued.size !== Object.keys(params).length || ![...valued].every((each) => Object.hasOwn(params, each)))
      problems.push(`stage ${id}: texts.params are not the parameters that its texts read`);
    const placed = made.texts.map(({ place }) => nameOfPlace(place));
    problems.push(...repeated(placed).map((twice) => `stage ${id}: two texts are ${twice}`));
    made.texts.forEach(({ place, parts }, position) => {
      if (!hasText(work, place)) problems.push(`stage ${id}: its work has no ${placed[position]}`);
      if (parts.some((part) => typeof part === 'number' && part >= sources.length))
        problems.push(`stage ${id}: ${placed[position]} has an expression that texts.sources lacks`);
    });
    return problems;
  });
}

function nameOfPlace(place: TextPlace): string {
  switch (place.kind) {
    case 'arg':
      return `args[${place.index}]`;
    case 'env':
      return `env.${place.name}`;
    case 'param':
      return `params.${place.name}`;
    case 'message':
    case 'prompt':
    case 'until':
      return place.kind;
  }
}

function mountProblems(checked: Plan): readonly string[] {
  return checked.scopes.flatMap(({ id, sandbox: { mode, isolation, mounts } }) => {
    const problems = overlaps(mounts.map((mount) => mount.guestPath)).map(
      ([a, b]) => `scope ${id} has two mounts on or in each other: ${mounts[a]!.guestPath}, ${mounts[b]!.guestPath}`,
    );
    mounts.forEach((mount, position) => {
      if (mount.mode === 'ro' && mustStayWritable(mount.guestPath))
        problems.push(`scope ${id} has a read-only mount on ${mount.guestPath}`);
      for (const other of mounts.slice(0, position)) {
        if (sharesSource(mount.source, other.source) && (mount.mode === 'rw' || other.mode === 'rw'))
          problems.push(
            `scope ${id} has a writable mount that shares host files with another: ${mount.source.path}, ${other.source.path}`,
          );
      }
    });
    if (mode === 'mock' && isolation !== 'none')
      problems.push(`scope ${id} demands isolation ${isolation} of the mock`);
    return problems;
  });
}

function variableProblems(checked: Plan): readonly string[] {
  const declared = new Set(checked.hostVariables);
  const read = new Set(hostVariablesOf(checked.stages));
  // Keys of agents are known without being said: plans of builds that ran no agents name none.
  const said = new Set(
    hostVariablesOf(
      checked.stages.map(({ work }) => ({
        work: work.kind === 'agent' || work.kind === 'skill' ? { ...work, played: true } : work,
      })),
    ),
  );
  return [
    ...[...said]
      .filter((each) => !declared.has(each))
      .map((each) => `hostVariables lacks ${each}, which a stage reads`),
    ...[...declared].filter((each) => !read.has(each)).map((each) => `hostVariables has ${each}, which no stage reads`),
    ...repeated(checked.hostVariables).map((each) => `hostVariables has ${each} twice`),
  ];
}

function repeated(values: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const value of values) (seen.has(value) ? twice : seen).add(value);
  return [...twice];
}
