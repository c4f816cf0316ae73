/**
 * The rules for values of a plan from outside: each rule that `domain/plan/plan-description.ts` names, as data for
 * every reader.
 */
import { SERVICE_TIMEOUT_MS } from '../plan/defaults.ts';
import { PLAN_LIMITS, RETENTION } from '../plan/plan.ts';
import type { JsonRule, ListRule, NumberRule, ObjectRule, TextRule } from '../plan/rule-names.ts';
import { findAddressProblem, isRefName } from '../plan/workspace.ts';
import { isPlanId } from '../run/instance.ts';
import { LAST_DATE_MS } from '../units/time.ts';
import { countUtf8Bytes } from '../units/utf8.ts';
import { EXPRESSION_LIMITS } from './expression/limits.ts';
import {
  applyScale,
  DURATIONS,
  type DurationRange,
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
import { addressBits, hostName, networkOf } from './read/egress-rules.ts';
import { OUTPUT_SCHEMA_LIMITS } from './schema/output-schema.ts';
import { explainGuestPathRefusal, normalizeAbsolute, toRelativePath } from './text/paths.ts';
import { SOURCE_LIMITS } from './text/source.ts';

/** One demand on a text; a rule checks its demands in order. */
export type TextDemand =
  | { readonly pattern: RegExp; readonly says?: string }
  /** Limits of `String.length`. */
  | { readonly least: number }
  | { readonly most: number }
  | Predicate<string>;

/** A demand that a pattern cannot express. */
export interface Predicate<T> {
  readonly holds: (value: T) => boolean;
  readonly says: string;
}

export interface NumberRequirement {
  readonly min: number;
  readonly max: number;
  readonly integer: boolean;
  /** One more value that is allowed outside of the range. */
  readonly or?: number;
}

const text: readonly TextDemand[] = [{ holds: (value) => !value.includes('\0'), says: 'no zero byte' }];
const someText: readonly TextDemand[] = [...text, { least: 1 }];
const reference: readonly TextDemand[] = [...someText, { most: PLAN_LIMITS.referenceCharacters }];
const absolute: readonly TextDemand[] = [
  ...text,
  { holds: (path) => normalizeAbsolute(path) === path, says: 'an absolute path without `.` and `..`' },
];

export const TEXT_RULES: Readonly<Record<TextRule, readonly TextDemand[]>> = {
  text,
  'some-text': someText,
  name: [
    { pattern: NAME, says: 'letters, digits, `.`, `_`, `-`, a letter or digit first' },
    { most: PLAN_LIMITS.nameLength },
  ],
  'scope-id': [
    // An id that is too long gets only the message about its length.
    { holds: (id) => isPlanId(id.slice(0, PLAN_LIMITS.nameLength)), says: 'letters, digits, `.`, `_`, `-`' },
    { most: PLAN_LIMITS.nameLength },
  ],
  variable: [{ pattern: VARIABLE, says: 'letters, digits and `_`' }, { most: VARIABLE_LIMITS.nameLength }],
  label: [...someText, { most: 256 }],
  message: [...someText, { most: PLAN_LIMITS.messageCharacters }],
  'field-description': [...text, { most: PLAN_LIMITS.messageCharacters }],
  expression: [...someText, { most: EXPRESSION_LIMITS.characters }],
  'mock-output': [{ holds: (output) => countUtf8Bytes(output) <= PLAN_LIMITS.mockBytes, says: 'a shorter output' }],
  reference,
  repository: [...reference, { pattern: REPOSITORY }],
  'repository-folder': [{ pattern: NAME }, { most: PLAN_LIMITS.referenceCharacters }],
  branch: [...reference, { holds: isRefName, says: 'the name of a branch, tag or commit' }],
  'workspace-url': [
    ...reference,
    { holds: (url) => findAddressProblem(url) === null, says: 'an https:// URL with a path and without a user' },
  ],
  'absolute-path': absolute,
  'guest-path': [
    ...absolute,
    { holds: (path) => explainGuestPathRefusal(path) === null, says: 'a guest path outside of system folders' },
  ],
  'spec-folder-path': [
    ...text,
    {
      holds: (path) => path !== '' && toRelativePath(path) === path,
      says: "`.`, or a path relative to the spec's folder without `.` and `..`",
    },
  ],
  subfolder: [
    ...text,
    {
      holds: (path) => path !== '.' && toRelativePath(path) === path,
      says: 'a relative path without `.` and `..`',
    },
    { most: PLAN_LIMITS.referenceCharacters },
  ],
  'working-folder': [...text, { pattern: /^\//, says: 'a path that begins with `/`' }],
  // A plan may contain error codes of another build, which this build does not know.
  'failure-code': [
    { pattern: /^(?:exit:(?:0|[1-9]\d{0,2})|[a-z]+\/[a-z-]+)$/, says: 'an error code or `exit:N`' },
    { most: 64 },
  ],
  host: [...text, { holds: (host) => hostName(host) === host, says: 'the name of a host in lower case' }],
  network: [
    ...text,
    { most: 64 },
    { holds: (cidr) => networkOf(cidr) === cidr, says: 'a network, such as 198.41.0.0/16' },
  ],
  'service-name': [
    { pattern: HOST_LABEL },
    { holds: (label) => !RESERVED_LABELS.includes(label), says: 'a name that guests do not use themselves' },
  ],
  'service-host': [
    ...text,
    { holds: (host) => hostName(host) === host || addressBits(host) !== null, says: 'a host or an IP address' },
  ],
  sha256: [...text, { pattern: /^[0-9a-f]{64}$/ }],
};

/** Converts the range of a spec to a plan's unit, in which values are whole. */
const within = ({ min, max }: NumberRange, scale?: number): NumberRequirement => ({
  min: applyScale(min, scale),
  max: applyScale(max, scale),
  integer: true,
});
const lasting = ({ minMs, maxMs }: DurationRange): NumberRequirement => ({ min: minMs, max: maxMs, integer: true });
const amount = ({ min, max }: NumberRange): NumberRequirement => ({ min, max, integer: false });

export const NUMBER_RULES: Readonly<Record<NumberRule, NumberRequirement>> = {
  'max-parallel': within(RANGES.maxParallel),
  'allowed-failures': { min: 0, max: PLAN_LIMITS.items, integer: true },
  visits: within(RANGES.visits),
  'stage-visits': { min: 1, max: PLAN_LIMITS.stageVisits, integer: true },
  index: { min: 0, max: Number.MAX_SAFE_INTEGER, integer: true },
  attempts: within(RANGES.attempts),
  'exit-code': within(RANGES.exitCode),
  'stage-timeout-ms': { ...within(RANGES.timeoutSecs, SCALES.msPerSecond), or: SERVICE_TIMEOUT_MS },
  'run-timeout-ms': within(RANGES.runTimeoutSecs, SCALES.msPerSecond),
  'grace-ms': within(RANGES.graceSecs, SCALES.msPerSecond),
  'approval-ms': lasting(DURATIONS.approval),
  'wait-ms': lasting(DURATIONS.wait),
  'date-ms': { min: -LAST_DATE_MS, max: LAST_DATE_MS, integer: true },
  'pause-ms': within(RANGES.backoffSecs, SCALES.msPerSecond),
  'pause-factor': amount(RANGES.backoff),
  // A spec counts in MiB, a plan in bytes.
  'output-bytes': { min: 1, max: applyScale(RANGES.outputMib.max, SCALES.bytesPerMib), integer: true },
  'memory-mib': within(RANGES.memoryMib),
  vcpus: within(RANGES.vcpus),
  'disk-mib': within(RANGES.diskMib),
  'keep-ms': { min: RETENTION.minMs, max: RETENTION.maxMs, integer: true },
  port: { min: 1, max: 65_535, integer: true },
  'price-usd': amount(RANGES.priceUsd),
  'cost-usd': amount(RANGES.costUsd),
  tokens: within(RANGES.tokens),
  turns: within(RANGES.turns),
};

export interface JsonRequirement {
  /** Whether the value is a mapping. */
  readonly mapping: boolean;
  readonly demands: readonly Predicate<unknown>[];
}

export const JSON_RULES: Readonly<Record<JsonRule, JsonRequirement>> = {
  item: {
    mapping: false,
    demands: [{ holds: (value) => isJson(value, PLAN_LIMITS.itemLevels), says: 'JSON that is not nested too deep' }],
  },
  // A plan may not be nested deeper than a spec.
  'condition-value': {
    mapping: false,
    demands: [{ holds: (value) => isShallow(value, SOURCE_LIMITS.depth), says: 'JSON that is not nested too deep' }],
  },
  params: mapping(PLAN_LIMITS.skillParamsBytes, 'smaller params'),
  'output-schema': mapping(OUTPUT_SCHEMA_LIMITS.schemaBytes, 'a shorter schema'),
};

function mapping(mostBytes: number, says: string): JsonRequirement {
  return {
    mapping: true,
    demands: [
      {
        holds: (value) => isMapping(value) && isShallow(value, SOURCE_LIMITS.depth),
        says: 'a mapping that is not nested too deep',
      },
      { holds: (value) => (countJsonBytes(value) ?? Infinity) <= mostBytes, says },
    ],
  };
}

/** A demand on several fields of an object, with its JSON Schema. */
export interface ObjectRequirement extends Predicate<Readonly<Record<string, unknown>>> {
  readonly jsonSchema: Readonly<Record<string, unknown>>;
}

/** Requires that the field is present and not null. */
const given = (key: string) => ({ required: [key], properties: { [key]: { not: { type: 'null' } } } });

export const OBJECT_RULES: Readonly<Record<ObjectRule, ObjectRequirement>> = {
  agent: {
    holds: ({ mode, prompt }) => mode === 'interactive' || (prompt as string).trim() !== '',
    says: 'a prompt, or the mode `interactive`',
    jsonSchema: {
      anyOf: [
        { required: ['mode'], properties: { mode: { const: 'interactive' } } },
        { properties: { prompt: { pattern: '\\S' } } },
      ],
    },
  },
  approval: {
    holds: ({ selfApproval, onTimeout }) => selfApproval !== false || onTimeout !== 'approve',
    says: 'no `onTimeout: approve` with `selfApproval: false`',
    jsonSchema: {
      not: {
        required: ['selfApproval', 'onTimeout'],
        properties: { selfApproval: { const: false }, onTimeout: { const: 'approve' } },
      },
    },
  },
  'approval-field': {
    holds: ({ type, choices }) => (type === 'choice') === ((choices ?? []) as readonly string[]).length > 0,
    says: '`choices` with the type `choice`, and with no other',
    jsonSchema: {
      if: { required: ['type'], properties: { type: { const: 'choice' } } },
      // oxlint-disable-next-line unicorn/no-thenable -- a key of JSON Schema
      then: { required: ['choices'], properties: { choices: { minItems: 1 } } },
      else: { properties: { choices: { maxItems: 0 } } },
    },
  },
  budget: {
    holds: (limits) => Object.values(limits).some((limit) => limit !== undefined),
    says: 'at least one limit',
    jsonSchema: { minProperties: 1 },
  },
  mount: {
    holds: ({ hostPath, source }) => (hostPath === undefined) !== (source === undefined),
    says: 'either `source` or `hostPath`',
    jsonSchema: { oneOf: [{ required: ['hostPath'] }, { required: ['source'] }] },
  },
  wait: {
    holds: ({ forMs, untilMs, until }) =>
      [forMs, untilMs, until].filter((each) => (each ?? null) !== null).length === 1,
    says: 'one of `forMs`, `untilMs` and `until`',
    jsonSchema: { oneOf: [given('forMs'), given('untilMs'), given('until')] },
  },
};

export const LIST_RULES: Readonly<Record<ListRule, Predicate<readonly unknown[]>>> = {
  'service-names': {
    holds: (list) =>
      new Set((list as readonly { readonly name: unknown }[]).map(({ name }) => name)).size === list.length,
    says: 'names that differ',
  },
};

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

/** Returns null if the value is not JSON. */
export function countJsonBytes(value: unknown): number | null {
  try {
    const json: string | undefined = JSON.stringify(value);
    return json === undefined ? null : countUtf8Bytes(json);
  } catch {
    // A cycle, a bigint or a getter that throws.
    return null;
  }
}
