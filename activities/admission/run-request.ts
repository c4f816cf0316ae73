/**
 * Parses a request for a run: its plan, its input, its mocks. Any client may have started the workflow that passes it
 * on.
 */
import { Buffer } from 'node:buffer';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { MockRequest } from '../../domain/plan-rules/mocks.ts';
import { type Plan, PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { runIdProblem } from '../../domain/run/run-id.ts';
import { dataRefOf } from '../calls/values.ts';
import type { InlineOrRef, RunRequest } from '../contract.ts';
import type { ActivityDeps, PlanCheck } from '../deps.ts';
import { quote, shorten } from '../../domain/units/quote.ts';

/** A spec's text is in history. Text above this limit was not written by a person. */
const SPEC_BYTES = 512 * 1024;
const INPUT_BYTES = 1024 * 1024;

/** @throws CodedError `admit/invalid` */
export function mockIn(value: unknown): MockRequest | null {
  if (!isGiven(value)) return null;
  const isList = Array.isArray(value) && value.length > 0 && value.length <= PLAN_LIMITS.stages;
  if (value === 'all' || (isList && value.every((id) => typeof id === 'string'))) return value as MockRequest;
  throw new CodedError('admit/invalid', '`mock` must be "all" or a list of names of stages');
}

/** @throws CodedError `admit/invalid` */
export function mockAgentsIn(value: unknown): boolean | null {
  if (!isGiven(value)) return null;
  if (typeof value === 'boolean') return value;
  throw new CodedError('admit/invalid', '`mockAgents` must be true or false');
}

export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** True if the request has neither a spec nor a plan. */
export function hasNoPlan({ spec, plan, planRef, params }: RunRequest): boolean {
  return [spec, plan, planRef, params].every((value) => !isGiven(value));
}

export function hasNoMocks({ mock, mockAgents }: RunRequest): boolean {
  return !isGiven(mock) && !isGiven(mockAgents);
}

export async function planOf(
  deps: ActivityDeps,
  request: Partial<Record<keyof RunRequest, unknown>>,
  baseDir: string | null,
): Promise<Plan> {
  const { spec, plan, planRef, params } = request;
  if ([spec, plan, planRef].filter(isGiven).length !== 1)
    throw new CodedError(
      'admit/invalid',
      'voidboxRun takes one object with either `spec` (the text of a spec), `plan` (a compiled plan) or `planRef` (its JSON in the artifact store)',
    );
  if (!isGiven(spec)) {
    if (params !== undefined)
      throw new CodedError('admit/invalid', '`params` go with `spec`: a plan has its values already');
    return requirePlan(deps.checkPlan(isGiven(plan) ? plan : await readStoredPlan(deps, planRef)));
  }
  if (typeof spec !== 'string') throw new CodedError('admit/invalid', '`spec` must be the text of a spec, as a string');
  if (Buffer.byteLength(spec) > SPEC_BYTES)
    throw new CodedError(
      'run/too-large',
      `the spec has ${Buffer.byteLength(spec)} bytes; a run can have at most ${SPEC_BYTES}`,
    );
  return requirePlan(deps.compileSpec(spec, { baseDir: baseDir ?? '/', params: paramsOf(params) }));
}

async function readStoredPlan(deps: ActivityDeps, value: unknown): Promise<unknown> {
  const ref = dataRefOf(value);
  if (ref === null)
    throw new CodedError('admit/invalid', '`planRef` must be {"sha256":"…","sizeBytes":n,"mediaType":"…"}');
  if (ref.sizeBytes > PLAN_LIMITS.planBytes)
    throw new CodedError(
      'run/too-large',
      `the plan has ${ref.sizeBytes} bytes; a run can have at most ${PLAN_LIMITS.planBytes}: split it`,
    );
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of deps.artifacts.open(ref)) {
    bytes += part.byteLength;
    // The sender chose the size in the ref, so count the bytes.
    if (bytes > PLAN_LIMITS.planBytes)
      throw new CodedError(
        'run/too-large',
        `the plan is too large; a run can have at most ${PLAN_LIMITS.planBytes} bytes: split it`,
      );
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8')) as unknown;
  } catch {
    // Do not include the parser's message: it would quote the content of the artifact.
    throw new CodedError('admit/invalid', `the plan ${ref.sha256} is not JSON`);
  }
}

function requirePlan(checked: PlanCheck): Plan {
  if ('plan' in checked) return checked.plan;
  throw new CodedError('admit/invalid', checked.problems.join('\n'));
}

function paramsOf(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value))
    throw new CodedError('admit/invalid', '`params` must be an object of strings');
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== 'string')
      throw new CodedError('admit/invalid', `the param ${shorten(name)} must be a string, it is ${quote(text)}`);
  }
  return value as Record<string, string>;
}

export async function inputOf(deps: ActivityDeps, value: unknown): Promise<InlineOrRef | null> {
  if (value === undefined || value === null) return null;
  const input = value as Partial<Record<string, unknown>>;
  if (input['kind'] === 'inline' && typeof input['text'] === 'string') {
    const bytes = Buffer.from(input['text']);
    if (bytes.length > INPUT_BYTES)
      throw new CodedError(
        'run/too-large',
        `the input has ${bytes.length} bytes; an inline input may have at most ${INPUT_BYTES}: store it and pass a ref`,
      );
    if (bytes.length <= PLAN_LIMITS.inlineBytes) return { kind: 'inline', text: input['text'] };
    return { kind: 'ref', ref: await deps.artifacts.put(toStream(bytes), 'application/json') };
  }
  const ref = input['kind'] === 'ref' ? dataRefOf(input['ref']) : null;
  if (ref !== null) return { kind: 'ref', ref };
  throw new CodedError(
    'admit/invalid',
    '`input` must be {"kind":"inline","text":"…"} or {"kind":"ref","ref":{"sha256":"…","sizeBytes":n,"mediaType":"…"}}',
  );
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

export function assertRunId(runId: string): void {
  const problem = runIdProblem(runId);
  if (problem !== null)
    throw new CodedError('admit/invalid', `the workflow id ${quote(runId)} is not a valid run id: ${problem}`);
}
