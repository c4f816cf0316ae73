import { nameAnswerer } from '../../domain/run/approval-answer.ts';
import { stageNameOf } from '../../domain/run/attempt.ts';
import { formatTarget } from '../../domain/run/door-notice.ts';
import { parseVmKey } from '../../domain/run/vm-key.ts';
import type { RunEvent, RunEventBody, RunOutcome } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { cutToUtf8Tail } from '../../domain/units/utf8.ts';
import { formatDurationMs } from '../../domain/units/duration.ts';
import { sanitize, sanitizeLine } from '../../domain/security/sanitize.ts';
import { renderNetworkLine } from './network.ts';
import { renderQuestion } from './questions.ts';
import { createOutputLines, type OutputLines, type PlainLine } from './output-lines.ts';
import { type LineStyle, UNSTYLED } from './line-style.ts';
import { describeVmFacts } from './vm-facts.ts';

type OutputBody = Extract<RunEventBody, { type: 'output' }>;

/** The part of each call's output that is printed: nothing, its last 2 KiB, or all of its event. */
export type ToolLines = 'none' | 'short' | 'full';

/** The size limit of a call's output with `short`. */
export const SHORT_TOOL_BYTES = 2 * 1024;

export interface EventPrinterOptions {
  readonly style: LineStyle;
  /** Prefix of each output line; `logs --stage` leaves it out. */
  readonly prefix: boolean;
  /** Decides which events have a state line (`==> build started`), in addition to output. */
  readonly states: (body: RunEventBody) => boolean;
  readonly stream: 'stdout' | 'stderr' | 'both';
  /**
   * Prints every event of the proxies. Otherwise only refusals are printed: each target once, and only the first few of
   * a VM.
   */
  readonly everyRefusal?: boolean;
  /** Prints before each line its time in UTC: that of the piece of output in which the line begins. */
  readonly timestamps?: boolean;
  /** Whether a line is printed, decided by its text without colours, name and time; absent: every line. */
  readonly isWanted?: (line: PlainLine) => boolean;
  /** How much of the output of an agent's tools is printed; absent: nothing. */
  readonly tools?: ToolLines;
  /** Returns the line below a stage's question; absent: no line. */
  readonly answerHint?: (stage: string) => string;
  /**
   * Stages with an agent: their agent events are printed instead of their standard output. The run's first event adds
   * to them.
   */
  readonly agents?: readonly string[];
  /** The stages in the order of the spec, which decides their colours; absent: read from the run's first event. */
  readonly stages?: readonly string[];
}

/**
 * Turns events into append-only lines, and holds the unfinished last line of each stream until it is finished. Callers
 * may read such a line as it grows, for a prompt without a line feed or a progress bar.
 */
export interface EventPrinter {
  push(event: RunEvent): readonly string[];
  /**
   * Returns states of lines that have grown for a second, if they changed since the last call; for append-only output.
   * @param nowMs  of a clock of this process that only goes forward
   */
  takeStates(nowMs: number): readonly string[];
  /** The same whether they changed or not; for what is drawn again. */
  readStates(nowMs: number): readonly string[];
  /** Returns the unfinished lines at the end. */
  flush(): readonly string[];
}

export function createEventPrinter(options: EventPrinterOptions): EventPrinter {
  const { style } = options;
  const isWanted = options.isWanted ?? (() => true);
  const isHidden = createHiddenEvents(options);
  const output = createOutputPrinter(options);
  return {
    push({ body, atMs }) {
      if (body.type === 'output') return output.push(body, atMs);
      if (isOfAgent(body)) {
        if (options.stream === 'stderr') return [];
        if (body.type !== 'agent-tool-output') return output.format(stageNameOf(body), false, agentLines(body, atMs));
        return output.format(stageNameOf(body), true, toolLines(body, options.tools ?? 'none', atMs));
      }
      if (body.type === 'run-admitted') output.learn(body);
      // Print the last lines of a stage before the line about its end.
      const last = stagesEndedBy(body).flatMap(output.flushStage);
      const plain = !isHidden(body) && options.states(body) ? renderStateLine(body, UNSTYLED) : null;
      if (plain === null || !isWanted({ text: plain, atMs })) return last;
      const hint = body.type === 'stage-asking' ? options.answerHint?.(stageNameOf(body)) : undefined;
      const lines = [renderStateLine(body, style), ...(hint === undefined ? [] : [hint])];
      return [...last, ...lines.map((line) => withTime(`${style.dim('==>')} ${line}`, atMs, options))];
    },
    takeStates: output.takeStates,
    readStates: output.readStates,
    flush: output.flush,
  };
}

function withTime(line: string, atMs: number, { style, timestamps }: EventPrinterOptions): string {
  return timestamps === true ? `${style.dim(formatTime(atMs))} ${line}` : line;
}

/**
 * Returns a function that decides for one event after the other whether it has no line, although state lines are
 * wanted.
 */
function createHiddenEvents({ everyRefusal }: EventPrinterOptions): (body: RunEventBody) => boolean {
  // A VM that never came is released all the same, and then nothing has stopped.
  const begunVms = new Set<string>();
  const refusals = new Map<string, Set<string>>();
  let isFromTheStart = false;
  return (body) => {
    if (body.type === 'run-admitted') isFromTheStart = true;
    if (body.type === 'network') return everyRefusal !== true && !isNewRefusal(body, refusals);
    // This VM exists for one item, and other lines report the item.
    if (body.type !== 'vm-lost' && 'vmKey' in body && (parseVmKey(body.vmKey)?.instance.length ?? 0) > 0) return true;
    if (body.type === 'vm-starting') begunVms.add(body.vmKey);
    return body.type === 'vm-stopped' && isFromTheStart && !begunVms.has(body.vmKey);
  };
}

/** Formats the output of stages, each line after the name of its stage. */
interface OutputPrinter {
  push(body: OutputBody, atMs: number): readonly string[];
  format(stage: string, isDim: boolean, lines: readonly PlainLine[]): readonly string[];
  /** Reads from the run's first event which stages exist. */
  learn(body: Extract<RunEventBody, { type: 'run-admitted' }>): void;
  /** Unfinished lines of one stage. */
  flushStage(stage: string): readonly string[];
  takeStates(nowMs: number): readonly string[];
  readStates(nowMs: number): readonly string[];
  flush(): readonly string[];
}

function createOutputPrinter(options: EventPrinterOptions): OutputPrinter {
  const { style } = options;
  const isWanted = options.isWanted ?? (() => true);
  const streams = new Map<string, OutputLines>();
  const agents = new Set(options.agents ?? []);
  const hues = new Map((options.stages ?? []).map((stage, index) => [stage, index]));
  const hueOf = (stage: string): number => {
    const hue = hues.get(stage) ?? hues.size;
    hues.set(stage, hue);
    return hue;
  };
  const format: OutputPrinter['format'] = (stage, isDim, lines) => {
    const name = options.prefix ? `${style.hue(hueOf(stage.replace(ITEM, '')), `[${sanitizeLine(stage)}]`)} ` : '';
    return lines
      .map(({ text, atMs }) => ({ text: sanitize(text), atMs }))
      .filter(isWanted)
      .map(({ text, atMs }) => withTime(`${name}${isDim ? style.dim(text) : text}`, atMs, options));
  };
  const flushWhere = (isMeant: (stage: string) => boolean): readonly string[] =>
    [...streams].flatMap(([key, lines]) => {
      if (!isMeant(lines.stage)) return [];
      streams.delete(key);
      return format(lines.stage, lines.stream === 'stderr', lines.flush());
    });
  const formatStates = (read: (lines: OutputLines) => PlainLine | null): readonly string[] =>
    [...streams.values()].flatMap((lines) => {
      const state = read(lines);
      return state === null ? [] : format(lines.stage, lines.stream === 'stderr', [state]);
    });
  return {
    format,
    push(body, atMs) {
      if (options.stream !== 'both' && options.stream !== body.stream) return [];
      // The agent's output arrives as separate events.
      if (body.stream === 'stdout' && agents.has(body.stage)) return [];
      const key = `${body.execKey} ${body.stream}`;
      const lines = streams.get(key) ?? createOutputLines(stageNameOf(body), body.stream);
      streams.set(key, lines);
      return format(lines.stage, lines.stream === 'stderr', lines.push(formatOutputBytes(body), atMs));
    },
    learn(body) {
      for (const stage of body.agents ?? []) agents.add(stage);
      for (const { id } of body.stages) hueOf(id);
    },
    flushStage: (stage) => flushWhere((each) => each === stage),
    takeStates: (nowMs) => formatStates((lines) => lines.takeState(nowMs)),
    readStates: (nowMs) => formatStates((lines) => lines.readState(nowMs)),
    flush: () => flushWhere(() => true),
  };
}

/** The number of different refusals shown for each VM, because a guest can cause any number. */
const SHOWN_REFUSALS = 4;

/** @param seen  targets by VM */
function isNewRefusal(body: Extract<RunEventBody, { type: 'network' }>, seen: Map<string, Set<string>>): boolean {
  if (body.kind !== 'refused') return false;
  const targets = seen.get(body.vmKey) ?? new Set();
  seen.set(body.vmKey, targets);
  const target = formatTarget(body);
  if (targets.has(target) || targets.size >= SHOWN_REFUSALS) return false;
  targets.add(target);
  return true;
}

/** Formats a time. A host's clock may have any value. */
export function formatTime(atMs: number): string {
  const time = new Date(atMs);
  return Number.isNaN(time.getTime()) ? String(atMs) : time.toISOString();
}

/** Stages whose attempt has ended with the event. */
function stagesEndedBy(body: RunEventBody): readonly string[] {
  if (body.type === 'scope-restarted' || body.type === 'loop-visited') return body.stages;
  const isEnd = body.type === 'stage-finished' || body.type === 'stage-retrying' || body.type === 'stage-failed';
  return isEnd ? [stageNameOf(body)] : [];
}

/** The part of an item's name after the stage. */
const ITEM = /\[\d+\].*$/s;

type AgentBody = Extract<
  RunEventBody,
  { type: 'agent-text' | 'agent-tool' | 'agent-tool-output' | 'agent-asked' | 'skill-step' }
>;
const OF_AGENT: readonly RunEventBody['type'][] = [
  'agent-text',
  'agent-tool',
  'agent-tool-output',
  'agent-asked',
  'skill-step',
];

function isOfAgent(body: RunEventBody): body is AgentBody {
  return OF_AGENT.includes(body.type);
}

/** The last lines that a tool printed. */
function toolLines(
  { text, leftOutBytes, tool }: Extract<RunEventBody, { type: 'agent-tool-output' }>,
  tools: ToolLines,
  atMs: number,
): readonly PlainLine[] {
  if (tools === 'none') return [];
  const tail = cutToUtf8Tail(text, tools === 'short' ? SHORT_TOOL_BYTES : Number.POSITIVE_INFINITY);
  const before = tail.leftOutBytes + leftOutBytes;
  const hint = tools === 'short' && tail.leftOutBytes > 0 ? ', see --tools full' : ', see --raw';
  const note = before === 0 ? [] : [`… ${formatBytes(before)} before${hint}`];
  const name = tool === '' ? 'a tool' : sanitizeLine(tool);
  return [`← ${name}:`, ...note, ...tail.text.trimEnd().split('\n')].map((line, index) => ({
    text: index === 0 ? line : `  ${line}`,
    atMs,
  }));
}

/** Renders the words of an agent line by line; a call of a tool is one line. */
function agentLines(body: Exclude<AgentBody, { type: 'agent-tool-output' }>, atMs: number): readonly PlainLine[] {
  if (body.type === 'agent-text') return body.text.split('\n').map((text) => ({ text, atMs }));
  if (body.type === 'skill-step') {
    const why = body.refusal === null ? '' : `, again: ${sanitizeLine(body.refusal)}`;
    return [{ text: `◆ step ${sanitizeLine(body.step)} (turn ${body.turn})${why}`, atMs }];
  }
  if (body.type === 'agent-asked')
    return [{ text: `↻ asked again (${body.time} of ${body.mostTimes}): ${sanitizeLine(body.reason)}`, atMs }];
  const detail = sanitizeLine(body.detail);
  const what = body.tool === '' ? 'a tool' : sanitizeLine(body.tool);
  const text = body.failed
    ? `✗ ${what} failed${detail === '' ? '' : `: ${detail}`}`
    : `→ ${what}${detail === '' ? '' : `: ${detail}`}`;
  return [{ text, atMs }];
}

export function formatItemCount(items: number): string {
  return `${items} ${items === 1 ? 'item' : 'items'}`;
}

function mockAgentsNote(played: readonly string[] = []): string {
  return played.length === 0 ? '' : `; played by the mock agent: ${played.map(sanitizeLine).join(', ')}`;
}

function renderMockedNote(mocked: readonly string[] = []): string {
  return mocked.length === 0 ? '' : `; mocked, without their work: ${mocked.map(sanitizeLine).join(', ')}`;
}

function renderOrigin({ start, pooled }: Extract<RunEventBody, { type: 'vm-ready' }>): string {
  if (pooled === true) return ' from the pool';
  return start === 'snapshot' ? ' from a snapshot' : '';
}

function renderResume({ resumedAfter, resumeNote }: Extract<RunEventBody, { type: 'vm-ready' }>): string {
  if (resumedAfter !== undefined) return `, with the checkpoint after ${sanitizeLine(resumedAfter)}`;
  return resumeNote === undefined ? '' : `, with an empty disk: ${sanitizeLine(resumeNote)}`;
}

/** Renders one line for an event; null if the event has no meaning for people. */
export function renderStateLine(body: RunEventBody, style: LineStyle): string | null {
  switch (body.type) {
    case 'run-admitted':
      return `run admitted on host ${sanitizeLine(body.hostId)}, ${body.stages.length} ${body.stages.length === 1 ? 'stage' : 'stages'}${renderMockedNote(body.mocked)}${mockAgentsNote(body.mockAgents)}`;
    case 'run-resumed':
      return style.yellow(`run resumed by ${sanitizeLine(body.by)}`);
    case 'run-finished':
      return `run ${paintOutcome(body.outcome.state, style)}${renderToleratedNote(body.outcome)}${renderRunFailure(body.outcome)}`;
    case 'vm-starting':
      return `vm ${sanitizeLine(body.scope)} starting${body.generation > 0 ? ` (generation ${body.generation})` : ''}`;
    case 'vm-ready':
      return `vm ${sanitizeLine(body.scope)} ready in ${formatDurationMs(body.bootMs)}${renderOrigin(body)} ${style.dim(`(${describeVmFacts(body)})`)}${body.startNote === undefined ? '' : style.dim(`; ${sanitizeLine(body.startNote)}`)}${renderResume(body)}`;
    case 'checkpoint-made':
      return style.dim(
        `checkpoint after ${sanitizeLine(stageNameOf(body))}: ${formatBytes(body.usedBytes)} in ${formatDurationMs(body.tookMs)}`,
      );
    case 'checkpoint-failed':
      return style.yellow(`no checkpoint after ${sanitizeLine(stageNameOf(body))}: ${sanitizeLine(body.reason)}`);
    case 'vm-lost':
      return style.yellow(`vm ${sanitizeLine(body.scope)} lost: ${sanitizeLine(body.reason)}`);
    case 'network':
      return renderNetworkLine(body, style);
    case 'vm-stopped':
      return `vm ${sanitizeLine(body.scope)} stopped`;
    case 'scope-restarted':
      return style.yellow(
        `vm ${sanitizeLine(body.scope)} starts again${body.stages.length === 0 ? '' : ` with ${body.stages.map(sanitizeLine).join(', ')}`}${body.kept === undefined ? '' : `, and keeps ${body.kept.map(sanitizeLine).join(', ')}`}: ${sanitizeLine(body.reason)}`,
      );
    case 'loop-visited':
      return `${style.bold(sanitizeLine(body.stage))} visit ${body.visit}: ${body.stages.map(sanitizeLine).join(', ')}`;
    case 'stage-started':
      return `${style.bold(sanitizeLine(stageNameOf(body)))} started${body.items === undefined ? '' : `, ${formatItemCount(body.items)}`}${body.attempt > 1 ? ` (attempt ${body.attempt})` : ''}`;
    case 'stage-reattached':
      return style.yellow(
        `${sanitizeLine(stageNameOf(body))} continues: a worker has attached again (${sanitizeLine(body.reason)})`,
      );
    case 'stage-resumed':
      return style.yellow(
        `${sanitizeLine(stageNameOf(body))} continues from the state of its agent at ${formatTime(body.savedAtMs)}${body.runId === undefined ? '' : ` in run ${sanitizeLine(body.runId)}`}`,
      );
    case 'stage-published':
      return style.dim(`${sanitizeLine(stageNameOf(body))} published ${formatBytes(body.output.sizeBytes)} of output`);
    case 'stage-finished':
      return `${style.bold(sanitizeLine(stageNameOf(body)))} ${renderStageEnd(body.result, style)}`;
    case 'stage-retrying':
      return style.yellow(
        `${sanitizeLine(stageNameOf(body))} is tried again${body.delayMs === 0 ? '' : ` in ${formatDurationMs(body.delayMs)}`}: ${sanitizeLine(body.reason)}`,
      );
    case 'stage-asking':
      return style.yellow(
        `${sanitizeLine(stageNameOf(body))} waits for an answer${body.attempt > 1 ? ` (attempt ${body.attempt})` : ''}: ${renderQuestion(body.question)}`,
      );
    case 'stage-answered':
      return `${style.bold(sanitizeLine(stageNameOf(body)))} ${renderAnswer(body, style)}`;
    case 'stage-sleeping':
      return `${style.bold(sanitizeLine(body.stage))} waits until ${formatTime(body.untilMs)}`;
    case 'stage-woken':
      return `${style.bold(sanitizeLine(body.stage))} ${body.outcome === 'succeeded' ? 'has waited' : paintOutcome('cancelled', style)}`;
    case 'stage-failed':
      return `${style.bold(sanitizeLine(stageNameOf(body)))} ${paintOutcome('failed', style)}: ${sanitizeLine(body.failure.message)} (${sanitizeLine(body.failure.code)})`;
    case 'stage-given':
      return style.dim(
        `${sanitizeLine(body.stage)} ${body.outcome} in run ${sanitizeLine(body.runId)}, and does not run again`,
      );
    case 'stage-skipped':
      return style.dim(`${sanitizeLine(body.stage)} skipped: ${sanitizeLine(body.reason)}`);
    case 'stage-passed':
      return style.dim(`${sanitizeLine(body.stage)} passed: its condition does not hold`);
    case 'notice':
      return body.level === 'warning'
        ? style.yellow(`warning: ${sanitizeLine(body.message)}`)
        : sanitizeLine(body.message);
    case 'agent-text':
    case 'agent-tool':
    case 'agent-tool-output':
    case 'agent-asked':
    case 'agent-usage':
    case 'stage-progress':
    case 'skill-step':
    case 'output':
      return null;
    // A later build wrote this event.
    default:
      return null;
  }
}

/** A failure without a stage is on no other line. */
function renderRunFailure({ failedStage, failure }: RunOutcome): string {
  return failedStage !== null || failure === null
    ? ''
    : `: ${sanitizeLine(failure.message)} (${sanitizeLine(failure.code)})`;
}

function renderAnswer(
  { outcome, by, verified, comment, failure }: Extract<RunEventBody, { type: 'stage-answered' }>,
  style: LineStyle,
): string {
  if (failure !== null)
    return `${paintOutcome('failed', style)}: ${sanitizeLine(failure.message)} (${sanitizeLine(failure.code)})`;
  if (outcome !== 'succeeded') return paintOutcome(outcome, style);
  const said = comment === undefined ? '' : `: ${sanitizeLine(comment)}`;
  return `${style.green('approved')}${nameAnswerer({ by, verified })}${said}`;
}

function renderStageEnd(result: StageResult, style: LineStyle): string {
  const time = `in ${formatDurationMs(result.durationMs)}`;
  if (result.outcome === 'succeeded') {
    const size = result.output === null ? '' : style.dim(` (${formatBytes(result.output.sizeBytes)} of output)`);
    return `${paintOutcome('succeeded', style)} ${time}${size}`;
  }
  const reason =
    result.failure === null ? '' : `: ${sanitizeLine(result.failure.message)} (${sanitizeLine(result.failure.code)})`;
  return `${paintOutcome(result.outcome, style)} ${time}${reason}`;
}

/** A state in its colour: green is success, red failure, yellow ended by someone. */
export function paintOutcome(state: string, style: LineStyle): string {
  if (state === 'succeeded') return style.green(state);
  if (state === 'failed' || state === 'damaged') return style.red(state);
  if (state === 'cancelled' || state === 'terminated') return style.yellow(state);
  return state;
}

export function formatOutputBytes(body: OutputBody): Uint8Array {
  return Buffer.from(body.data, body.encoding);
}

/** `, 1 failure tolerated: lint`, or nothing. */
export function renderToleratedNote(outcome: RunOutcome | null): string {
  const stages = outcome?.tolerated ?? [];
  if (stages.length === 0) return '';
  const shown = stages.slice(0, MOST_NAMES).map((id) => sanitizeLine(id));
  const rest = stages.length - shown.length;
  return `, ${stages.length} ${stages.length === 1 ? 'failure' : 'failures'} tolerated: ${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** More names than these are looked up in the list of stages. */
const MOST_NAMES = 8;
