/** The first activity of each run: nothing runs that was not checked here, whatever client started it. */
import { Buffer } from 'node:buffer';
import { realpath } from 'node:fs/promises';
import { sep } from 'node:path';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { ERROR_CODES } from '../domain/errors/codes.ts';
import { PLAN_LIMITS, type Plan } from '../domain/plan/plan.ts';
import { planBytes, type PlanWire, toWire } from '../domain/plan/wire.ts';
import type { NewRunEvent } from '../domain/run/event.ts';
import type { Admission, InlineOrRef, RunRequest } from './contract.ts';
import type { ActivityDeps } from './deps.ts';
import { toActivityFailure } from './failure.ts';

/** Compiles a spec's text. Exactly one of the two is set; problems are readable lines with positions. */
export type CompileSpec = (text: string, options: { readonly baseDir: string; readonly params: Readonly<Record<string, string>> }) => Checked;
/** Checks a plan that a client compiled. */
export type CheckPlan = (plan: unknown) => Checked;
export type Checked = { readonly plan: Plan } | { readonly problems: readonly string[] };

/** Record `admission`: a second admission of the run answers with it. */
export interface AdmissionRecord extends Omit<Admission, 'searchAttributes'> {
  readonly serverId: string;
}

const RUN_ID = /^(?!\.)[A-Za-z0-9._-]{1,128}$/;
/** A spec text travels in history; more than this is no text that a person wrote. */
const SPEC_BYTES = 512 * 1024;
const INPUT_BYTES = 1024 * 1024;

export async function admit(deps: ActivityDeps, request: RunRequest & { readonly runId: string }): Promise<Admission> {
  try {
    return await admitted(deps, request);
  } catch (error) {
    await recordRefusal(deps, request.runId, error);
    throw toActivityFailure(error);
  }
}

async function admitted(deps: ActivityDeps, request: RunRequest & { readonly runId: string }): Promise<Admission> {
  const { runId } = request;
  if (!RUN_ID.test(runId))
    throw new CodedError(
      'admit/invalid',
      `the workflow id ${JSON.stringify(runId.slice(0, 160))} is not a run id: 1 to 128 of A-Z, a-z, 0-9, ".", "_", "-", no "." in front`,
    );
  const earlier = (await deps.records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  if (earlier !== null && earlier !== undefined) {
    const { plan, hostQueue, hostId, input } = earlier;
    await deps.events.append(runId, [admittedEvent(deps, plan)]);
    return { plan, hostQueue, hostId, input, searchAttributes: deps.searchAttributes };
  }
  const baseDir = deps.mountPolicy.specFolder ? await specFolder(deps, runId) : null;
  const plan = planOf(deps, request, baseDir);
  const bytes = planBytes(plan);
  if (bytes > PLAN_LIMITS.planBytes) throw new CodedError('run/too-large', `the plan has ${bytes} bytes, a run takes ${PLAN_LIMITS.planBytes}: split it`);
  await checkMounts(plan, [...deps.mountPolicy.allowedRoots, ...(baseDir === null ? [] : [baseDir])]);
  const input = await inputOf(deps, request.input);
  const wire = toWire(plan);
  const admission = { plan: wire, hostQueue: deps.hostQueue, hostId: deps.hostId, input };
  await deps.records.put(runId, 'plan', wire);
  await deps.records.put(runId, 'admission', { ...admission, serverId: deps.serverId } satisfies AdmissionRecord);
  await deps.events.append(runId, [admittedEvent(deps, plan)]);
  return { ...admission, searchAttributes: deps.searchAttributes };
}

function admittedEvent(deps: ActivityDeps, plan: PlanWire): NewRunEvent {
  return {
    id: 'run/admitted',
    atMs: deps.now(),
    body: {
      type: 'run-admitted',
      name: plan.name,
      kind: plan.kind,
      hostId: deps.hostId,
      stages: plan.stages.map(({ id, dependsOn = [] }) => ({ id, dependsOn })),
      outputStage: plan.output.kind === 'stage' ? plan.output.stage : null,
    },
  };
}

/** What the client that started the run left for the worker of its own machine. */
async function specFolder(deps: ActivityDeps, runId: string): Promise<string | null> {
  const client = (await deps.records.get(runId, 'client')) as { readonly baseDir?: unknown } | null | undefined;
  return typeof client?.baseDir === 'string' ? client.baseDir : null;
}

function planOf(deps: ActivityDeps, request: RunRequest, baseDir: string | null): Plan {
  const { spec, plan, params } = request as Record<keyof RunRequest, unknown>;
  const hasSpec = spec !== undefined && spec !== null;
  const hasPlan = plan !== undefined && plan !== null;
  if (hasSpec === hasPlan)
    throw new CodedError('admit/invalid', 'voidboxRun takes one object with either `spec` (the text of a spec) or `plan` (a compiled plan)');
  if (hasPlan) {
    if (params !== undefined) throw new CodedError('admit/invalid', '`params` go with `spec`: a plan has its values already');
    return accepted(deps.checkPlan(plan));
  }
  if (typeof spec !== 'string') throw new CodedError('admit/invalid', '`spec` must be the text of a spec, as a string');
  if (Buffer.byteLength(spec) > SPEC_BYTES) throw new CodedError('run/too-large', `the spec has ${Buffer.byteLength(spec)} bytes, a run takes ${SPEC_BYTES}`);
  return accepted(deps.compileSpec(spec, { baseDir: baseDir ?? '/', params: paramsOf(params) }));
}

function accepted(checked: Checked): Plan {
  if ('plan' in checked) return checked.plan;
  throw new CodedError('admit/invalid', checked.problems.join('\n'));
}

function paramsOf(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value)) throw new CodedError('admit/invalid', '`params` must be an object of strings');
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== 'string') throw new CodedError('admit/invalid', `the param ${name} must be a string, it is ${JSON.stringify(text)}`);
  }
  return value as Record<string, string>;
}

async function inputOf(deps: ActivityDeps, value: unknown): Promise<InlineOrRef | null> {
  if (value === undefined || value === null) return null;
  const input = value as Partial<Record<string, unknown>>;
  if (input['kind'] === 'inline' && typeof input['text'] === 'string') {
    const bytes = Buffer.from(input['text']);
    if (bytes.length > INPUT_BYTES)
      throw new CodedError('run/too-large', `the input has ${bytes.length} bytes, inline it may have ${INPUT_BYTES}: store it and hand over a ref`);
    if (bytes.length <= PLAN_LIMITS.inlineBytes) return { kind: 'inline', text: input['text'] };
    return { kind: 'ref', ref: await deps.artifacts.put(once(bytes), 'application/json') };
  }
  if (input['kind'] === 'ref' && isDataRef(input['ref'])) return { kind: 'ref', ref: input['ref'] };
  throw new CodedError('admit/invalid', '`input` must be {"kind":"inline","text":"…"} or {"kind":"ref","ref":{"sha256":"…","sizeBytes":n,"mediaType":"…"}}');
}

function isDataRef(value: unknown): value is Extract<InlineOrRef, { kind: 'ref' }>['ref'] {
  if (typeof value !== 'object' || value === null) return false;
  const { sha256, sizeBytes, mediaType } = value as Record<string, unknown>;
  return (
    typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256) && Number.isSafeInteger(sizeBytes) && Number(sizeBytes) >= 0 && typeof mediaType === 'string'
  );
}

async function* once(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/** Both sides are resolved first: a link inside an allowed folder does not lead out of it. */
async function checkMounts(plan: Plan, allowedRoots: readonly string[]): Promise<void> {
  const roots = await Promise.all(allowedRoots.map((root) => realpath(root).catch(() => null)));
  for (const scope of plan.scopes) {
    for (const { hostPath } of scope.sandbox.mounts) {
      const real = await realpath(hostPath).catch(() => null);
      if (real === null) throw new CodedError('admit/mount-refused', `the mount ${hostPath} of scope ${scope.id} is not on the host that runs it`);
      if (!roots.some((root) => root !== null && isInside(real, root))) {
        const allowed = allowedRoots.length === 0 ? 'this worker allows no host folders' : `this worker allows ${allowedRoots.join(', ')}`;
        throw new CodedError('admit/mount-refused', `the mount ${hostPath} of scope ${scope.id} is refused: ${allowed}`);
      }
    }
  }
}

function isInside(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** Readers wait for a terminal event; a run that is refused must have one too. */
async function recordRefusal(deps: ActivityDeps, runId: string, error: unknown): Promise<void> {
  if (!isCodedError(error) || ERROR_CODES[error.code].retryable || !RUN_ID.test(runId)) return;
  const outcome = { state: 'failed', failedStage: null, failure: { code: error.code, message: error.message, stderrTail: '' }, output: null } as const;
  await deps.events.append(runId, [{ id: 'run/finished', atMs: deps.now(), body: { type: 'run-finished', outcome } }]);
  await deps.records.dropHostVariables(runId);
}
