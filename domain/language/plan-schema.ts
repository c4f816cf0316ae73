/** The shape of a plan that comes from outside: what each of its values may be. */
import * as z from 'zod';
import { EGRESS_LIMITS } from '../plan/egress.ts';
import { SERVICE_TIMEOUT_MS } from '../plan/defaults.ts';
import {
  AGENT_MODES,
  type ConditionValue,
  FIELD_TYPES,
  ISOLATION_LEVELS,
  type JsonValue,
  LLM_PROVIDERS,
  MOUNT_MODES,
  ON_LIMITS,
  PLAN_KINDS,
  PLAN_LIMITS,
  PLAN_VERSION,
  RETENTION,
  SANDBOX_MODES,
  TIMEOUT_ANSWERS,
} from '../plan/plan.ts';
import type { WorkWire } from '../plan/wire.ts';
import { addressProblem, isRefName } from '../plan/workspace.ts';
import { isPlanId } from '../run/instance.ts';
import { LAST_DATE_MS } from '../units/time.ts';
import { utf8Length } from '../units/utf8.ts';
import {
  applyScale,
  DURATIONS,
  HOST_LABEL,
  NAME,
  type NumberRange,
  RANGES,
  REPOSITORY,
  RESERVED_LABELS,
  SCALES,
  VARIABLE,
  VARIABLE_LIMITS,
} from './grammar/values.ts';
import { EXPRESSION_LIMITS } from './expression/limits.ts';
import { addressBits, hostName, networkOf } from './read/egress-rules.ts';
import { OUTPUT_SCHEMA_LIMITS } from './schema/output-schema.ts';
import { guestPathRefusal, normalizeAbsolute, relativePath } from './text/paths.ts';
import { SOURCE_LIMITS } from './text/source.ts';

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

/** Not `z.json()`, which makes a copy without the key `__proto__`. */
const item = z.custom<JsonValue>((value) => isJson(value, PLAN_LIMITS.itemLevels), 'JSON that is not nested too deep');

const each = z.strictObject({
  list: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('inline'), items: z.array(item).max(PLAN_LIMITS.items) }),
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
      url: reference.refine(
        (url) => addressProblem(url) === null,
        'an https:// address with a path and without a user',
      ),
      ref,
    }),
    z.strictObject({ kind: z.literal('stage'), stage: name }),
  ]),
  guestPath,
  changes: z.literal('none').optional(),
  subfolder: text
    .refine(
      (path) => path !== '.' && relativePath(path) === path,
      'a path without `.`, `..` and a `/` at its beginning',
    )
    .max(PLAN_LIMITS.referenceCharacters)
    .optional(),
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
        cidr: text.max(64).refine((cidr) => networkOf(cidr) === cidr, 'a network, such as 198.41.0.0/16'),
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
          git: z.literal('writable').optional(),
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

export const planSchema = z.strictObject({
  version: z.literal(PLAN_VERSION),
  kind: z.enum(PLAN_KINDS),
  name,
  // Everything but these may be left out: see `domain/plan/wire.ts`.
  stages: z
    .array(stage.partial().required({ id: true, work: true }))
    .min(1)
    .max(PLAN_LIMITS.stages),
  scopes: z
    .array(
      z.strictObject({
        id: scopeId,
        stages: names.optional(),
        keepsVm: z.literal(true).optional(),
        sandbox: sandbox.partial().optional(),
      }),
    )
    .max(PLAN_LIMITS.stages),
  output: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('stage'), stage: name }),
    z.strictObject({ kind: z.literal('merge'), stages: names }),
  ]),
  maxParallel: within(RANGES.maxParallel),
  timeoutMs: within(RANGES.runTimeoutSecs, SCALES.msPerSecond).optional(),
  deadlineMs: within(RANGES.runTimeoutSecs, SCALES.msPerSecond).optional(),
  graceMs: within(RANGES.graceSecs, SCALES.msPerSecond).optional(),
  budget: budget.optional(),
  hostVariables: z.array(variable),
});

function isMapping(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isJson(value: unknown, levels: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return false;
  if (!Array.isArray(value) && !isPlain(value)) return false;
  return levels > 0 && Object.values(value).every((each) => isJson(each, levels - 1));
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((each) => isShallow(each, levels - 1));
}

export function jsonBytes(value: unknown): number | null {
  try {
    const json: string | undefined = JSON.stringify(value);
    return json === undefined ? null : utf8Length(json);
  } catch {
    // A cycle, a bigint or a getter that throws.
    return null;
  }
}
