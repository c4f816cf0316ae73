/**
 * Compares the records of a run with its story. Pure, so that its tests can show that it finds each kind of mistake: a
 * doubled line, a lost line, a result without its event.
 */
import { Buffer } from 'node:buffer';
import { isLostVm, toErrorCode } from '../../domain/errors/error-code.ts';
import { LOST_VM_ATTEMPTS } from '../../domain/errors/code-info.ts';
import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { REDACTED } from '../../domain/security/redactor.ts';
import type { StageStory, Story } from './story.ts';

type Body<T extends RunEventBody['type']> = Extract<RunEventBody, { type: T }>;
type StreamName = 'stdout' | 'stderr';

/** The records of one attempt of one stage in the store. */
interface Attempt {
  readonly execKey: string;
  readonly starts: number;
  readonly results: readonly StageResult[];
  readonly stdout: string;
  readonly stderr: string;
}

export function findingsOf(story: Story, events: readonly RunEvent[]): readonly string[] {
  return [
    ...orderFindings(events),
    ...endFindings(story, events),
    ...strangers(story, events),
    ...story.stages.flatMap((stage) => stageFindings(stage, events, stateOf(events))),
  ];
}

/** A run may fail if its VM was lost more often than it is tried again, and if its events report each loss. */
export function isExplainedFailure(events: readonly RunEvent[]): boolean {
  const outcome = bodies(events, 'run-finished')[0]?.outcome;
  if (outcome?.state !== 'failed' || !isLostVm(toErrorCode(outcome.failure?.code))) return false;
  const losses = new Map<string, number>();
  for (const { scope } of bodies(events, 'vm-lost')) losses.set(scope, (losses.get(scope) ?? 0) + 1);
  return [...losses.values()].some((count) => count > LOST_VM_ATTEMPTS);
}

function stateOf(events: readonly RunEvent[]): string {
  return bodies(events, 'run-finished')[0]?.outcome.state ?? 'not finished';
}

function bodies<T extends RunEventBody['type']>(events: readonly RunEvent[], type: T): readonly Body<T>[] {
  return events.flatMap(({ body }) => (body.type === type ? [body as Body<T>] : []));
}

function orderFindings(events: readonly RunEvent[]): readonly string[] {
  const findings: string[] = [];
  const ids = new Set<string>();
  for (const [index, { seq, id }] of events.entries()) {
    if (seq !== index + 1) findings.push(`event ${id} has number ${seq} in place ${index + 1}`);
    if (ids.has(id)) findings.push(`event ${id} stands twice`);
    ids.add(id);
  }
  return findings;
}

function endFindings(story: Story, events: readonly RunEvent[]): readonly string[] {
  const findings: string[] = [];
  for (const type of ['run-admitted', 'run-finished'] as const) {
    const count = bodies(events, type).length;
    if (count !== 1) findings.push(`${count} events ${type}`);
  }
  const end = events.findIndex(({ body }) => body.type === 'run-finished');
  const late =
    end < 0 ? [] : events.slice(end + 1).filter(({ body }) => body.type === 'output' || body.type.startsWith('stage-'));
  for (const { id } of late) findings.push(`event ${id} came after the end of the run`);
  const state = stateOf(events);
  if (!story.states.includes(state) && !isExplainedFailure(events)) {
    const failure = bodies(events, 'run-finished')[0]?.outcome.failure;
    findings.push(
      `the run is ${state}, not ${story.states.join(' or ')}${failure ? `: ${failure.code}: ${failure.message}` : ''}`,
    );
  }
  return findings;
}

function strangers(story: Story, events: readonly RunEvent[]): readonly string[] {
  const known = new Set(story.stages.map(({ stage }) => stage));
  const named = new Set(events.flatMap(({ body }) => ('stage' in body ? [body.stage] : [])));
  return [...named]
    .filter((stage) => !known.has(stage))
    .map((stage) => `events name ${stage}, which the run does not have`);
}

function stageFindings(story: StageStory, events: readonly RunEvent[], runState: string): readonly string[] {
  const { attempts, findings } = attemptsOf(story.stage, events);
  for (const [index, attempt] of attempts.entries()) {
    findings.push(...attemptFindings(story, attempt));
    if (index < attempts.length - 1) findings.push(...repetitionFindings(story, attempt, events));
  }
  const whole = attempts.filter(({ results }) => results[0]?.outcome === 'succeeded');
  if (runState === 'succeeded' && attempts.at(-1)?.results[0]?.outcome !== 'succeeded')
    findings.push(`${story.stage} has not succeeded, the run has`);
  const restarts = bodies(events, 'scope-restarted').filter(
    ({ scope, stages }) => scope === story.scope && stages.includes(story.stage),
  ).length;
  if (whole.length > restarts + 1)
    findings.push(`${story.stage} succeeded ${whole.length} times, and events tell of ${restarts} restarts`);
  const losses = bodies(events, 'vm-lost').filter(({ scope }) => scope === story.scope).length;
  const unfinished = attempts.filter(({ results }) => results.length === 0).length;
  // A cancel that finds no worker ends the run and its VM. No process is left to record how far the command had come.
  const cut = runState === 'cancelled' ? 1 : 0;
  if (unfinished > losses + cut)
    findings.push(`${story.stage} has ${unfinished} attempts without a result, and events tell of ${losses} lost VMs`);
  return findings;
}

function attemptsOf(
  stage: string,
  events: readonly RunEvent[],
): { readonly attempts: readonly Attempt[]; readonly findings: string[] } {
  const findings: string[] = [];
  // If a VM is lost while it boots, its stage is tried again before the command of that key has started.
  const keys = new Set(
    events.flatMap(({ body }) =>
      'stage' in body && body.stage === stage && 'execKey' in body && body.type !== 'stage-retrying'
        ? [body.execKey]
        : [],
    ),
  );
  const attempts = [...keys].map((execKey): Attempt => {
    const stream = (name: StreamName): string => {
      const { text, findings: gaps } = streamOf(execKey, name, events);
      findings.push(...gaps);
      return text;
    };
    return {
      execKey,
      starts: bodies(events, 'stage-started').filter((body) => body.execKey === execKey).length,
      results: bodies(events, 'stage-finished').flatMap((body) => (body.execKey === execKey ? [body.result] : [])),
      stdout: stream('stdout'),
      stderr: stream('stderr'),
    };
  });
  return { attempts, findings };
}

/**
 * Joins the pieces of one stream, and finds each place where a piece does not begin at the end of the previous piece.
 */
function streamOf(
  execKey: string,
  stream: StreamName,
  events: readonly RunEvent[],
): { readonly text: string; readonly findings: readonly string[] } {
  const findings: string[] = [];
  const pieces: Buffer[] = [];
  let at = 0;
  for (const body of bodies(events, 'output')) {
    if (body.execKey !== execKey || body.stream !== stream) continue;
    const bytes = Buffer.from(body.data, body.encoding === 'utf8' ? 'utf8' : 'base64');
    if (body.from !== at)
      findings.push(`${execKey} ${stream}: a piece begins at ${body.from}, the one before it ended at ${at}`);
    if (bytes.length !== body.to - body.from && !bytes.includes(REDACTED))
      findings.push(`${execKey} ${stream}: the piece from ${body.from} to ${body.to} has ${bytes.length} bytes`);
    at = body.to;
    pieces.push(bytes);
  }
  return { text: Buffer.concat(pieces).toString('utf8'), findings };
}

function attemptFindings(story: StageStory, attempt: Attempt): readonly string[] {
  const { execKey, starts, results } = attempt;
  const findings: string[] = [];
  if (starts > 1) findings.push(`${execKey} started ${starts} times`);
  if (results.length > 1) findings.push(`${execKey} has ${results.length} results`);
  const result = results[0];
  if (starts === 0 && result?.outcome !== 'cancelled') findings.push(`${execKey} has events but never started`);
  if (result === undefined || result.outcome === 'cancelled') return [...findings, ...prefixFindings(story, attempt)];
  if (result.outcome === 'failed') {
    if (story.failing === null || result.command?.exitCode === 0 || (result.command?.exitCode ?? null) === null) {
      if (!isLostVm(toErrorCode(result.failure?.code)))
        findings.push(`${execKey} failed: ${result.failure?.code}: ${result.failure?.message}`);
      return [...findings, ...prefixFindings(story, attempt)];
    }
    return [...findings, ...textFindings(`${execKey} stdout`, attempt.stdout, story.failing)];
  }
  return [
    ...findings,
    ...textFindings(`${execKey} stdout`, attempt.stdout, story.stdout),
    ...textFindings(`${execKey} stderr`, attempt.stderr, story.stderr),
    ...(result.output === null ? [`${execKey} succeeded without an output`] : []),
  ];
}

/** An interrupted attempt has written the beginning of its text, and nothing else. */
function prefixFindings(story: StageStory, { execKey, stdout, stderr }: Attempt): readonly string[] {
  const findings: string[] = [];
  if (!story.stdout.startsWith(stdout) && story.failing?.startsWith(stdout) !== true)
    findings.push(...textFindings(`${execKey} stdout, cut off,`, stdout, story.stdout));
  if (!story.stderr.startsWith(stderr))
    findings.push(...textFindings(`${execKey} stderr, cut off,`, stderr, story.stderr));
  return findings;
}

function textFindings(what: string, got: string, wanted: string): readonly string[] {
  if (got === wanted) return [];
  const [gotLines, wantedLines] = [got.split('\n'), wanted.split('\n')];
  const line = gotLines.findIndex((text, index) => text !== wantedLines[index]);
  const at = line < 0 ? gotLines.length - 1 : line;
  const shown = (lines: readonly string[]): string => JSON.stringify(lines[at] ?? null);
  return [
    `${what} has ${gotLines.length - 1} lines, not ${wantedLines.length - 1}; line ${at + 1} is ${shown(gotLines)}, not ${shown(wantedLines)}`,
  ];
}

/** A stage never runs again without a reason: each attempt with a successor has an event that gives the reason. */
function repetitionFindings(
  { stage, scope }: StageStory,
  { execKey, results }: Attempt,
  events: readonly RunEvent[],
): readonly string[] {
  const isRetried = bodies(events, 'stage-retrying').some((body) => body.execKey === execKey);
  const restarts = bodies(events, 'scope-restarted').filter((body) => body.scope === scope);
  if (results[0]?.outcome === 'succeeded')
    return restarts.some(({ stages }) => stages.includes(stage))
      ? []
      : [`${execKey} succeeded, and ${stage} runs again without a word`];
  return isRetried || restarts.length > 0 ? [] : [`${execKey} is followed by another attempt, and no event says why`];
}
