import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import { type StageResult, toStageResult } from '../../domain/run/stage-result.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { formatDurationMs } from '../../domain/units/duration.ts';
import { sanitize, sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Style } from './style.ts';

type OutputBody = Extract<RunEventBody, { type: 'output' }>;

/** A line longer than this is broken, so that a guest which never writes a line feed holds no memory of ours. */
const MAX_LINE_CHARACTERS = 16 * 1024;

export interface EventPrinterOptions {
  readonly style: Style;
  /** Prefix of each output line; `logs --stage` leaves it out. */
  readonly prefix: boolean;
  /** Which events have a line about states (`==> build started`), besides output. */
  readonly states: (body: RunEventBody) => boolean;
  readonly stream: 'stdout' | 'stderr' | 'both';
}

/** Turns events into append-only lines, and holds the unfinished last line of each stream until it is finished. */
export interface EventPrinter {
  push(event: RunEvent): readonly string[];
  /** What unfinished lines there are, at the end. */
  flush(): readonly string[];
}

export function createEventPrinter(options: EventPrinterOptions): EventPrinter {
  const streams = new Map<string, StreamLines>();
  const format = (body: Pick<OutputBody, 'stage' | 'stream'>) => (line: string) => {
    const text = sanitize(line);
    const prefix = options.prefix ? `${options.style.cyan(`[${sanitizeLine(body.stage)}]`)} ` : '';
    return `${prefix}${body.stream === 'stderr' ? options.style.dim(text) : text}`;
  };
  const flushStage = (stage: string): string[] => {
    const lines: string[] = [];
    for (const [key, stream] of streams) {
      if (stream.stage !== stage) continue;
      lines.push(...stream.flush().map(format(stream)));
      streams.delete(key);
    }
    return lines;
  };
  return {
    push(event) {
      const { body } = event;
      if (body.type === 'output') {
        if (options.stream !== 'both' && options.stream !== body.stream) return [];
        const key = `${body.execKey} ${body.stream}`;
        const stream = streams.get(key) ?? createStreamLines(body.stage, body.stream);
        streams.set(key, stream);
        return stream.push(outputBytes(body)).map(format(body));
      }
      // A stage's last words stand before the line that says how it ended.
      const last = body.type === 'stage-finished' || body.type === 'stage-retrying' ? flushStage(body.stage) : [];
      const state = options.states(body) ? renderStateLine(body, options.style) : null;
      return state === null ? last : [...last, `${options.style.dim('==>')} ${state}`];
    },
    flush() {
      const lines = [...streams.values()].flatMap((stream) => stream.flush().map(format(stream)));
      streams.clear();
      return lines;
    },
  };
}

/** One line on what an event says, null when it says nothing to people. */
export function renderStateLine(body: RunEventBody, style: Style): string | null {
  switch (body.type) {
    case 'run-admitted':
      return `run admitted on host ${sanitizeLine(body.hostId)}, ${body.stages.length} ${body.stages.length === 1 ? 'stage' : 'stages'}`;
    case 'run-resumed':
      return style.yellow(`run resumed by ${sanitizeLine(body.by)}`);
    case 'run-finished':
      return `run ${paintOutcome(body.outcome.state, style)}`;
    case 'vm-starting':
      return `vm ${sanitizeLine(body.scope)} starting${body.generation > 0 ? ` (generation ${body.generation})` : ''}`;
    case 'vm-ready':
      return `vm ${sanitizeLine(body.scope)} ready in ${formatDurationMs(body.bootMs)} ${style.dim(`(${body.isolation}, ${body.accelerator}, ${sanitizeLine(body.kernel)}, jail ${sanitizeLine(body.jail)})`)}`;
    case 'vm-lost':
      return style.yellow(`vm ${sanitizeLine(body.scope)} lost: ${sanitizeLine(body.reason)}`);
    case 'vm-stopped':
      return `vm ${sanitizeLine(body.scope)} stopped`;
    case 'scope-restarted':
      return style.yellow(
        `vm ${sanitizeLine(body.scope)} starts again with ${body.stages.map(sanitizeLine).join(', ')}: ${sanitizeLine(body.reason)}`,
      );
    case 'stage-started':
      return `${style.bold(sanitizeLine(body.stage))} started${body.attempt > 1 ? ` (attempt ${body.attempt})` : ''}`;
    case 'stage-reattached':
      return style.yellow(
        `${sanitizeLine(body.stage)} goes on: a worker has attached again${body.reason === undefined ? '' : ` (${sanitizeLine(body.reason)})`}`,
      );
    case 'stage-finished':
      return `${style.bold(sanitizeLine(body.stage))} ${renderStageEnd(toStageResult(body.result), style)}`;
    case 'stage-retrying':
      return style.yellow(
        `${sanitizeLine(body.stage)} is tried again in ${formatDurationMs(body.delayMs)}: ${sanitizeLine(body.reason)}`,
      );
    case 'stage-asking':
      return style.yellow(
        `${sanitizeLine(body.stage)} waits for an answer${body.attempt > 1 ? ` (attempt ${body.attempt})` : ''}`,
      );
    case 'stage-answered':
      return `${style.bold(sanitizeLine(body.stage))} was answered: ${paintOutcome(body.outcome, style)}${body.failure === null ? '' : `: ${sanitizeLine(body.failure.message)} (${sanitizeLine(body.failure.code)})`}`;
    case 'stage-skipped':
      return style.dim(`${sanitizeLine(body.stage)} skipped: ${sanitizeLine(body.reason)}`);
    case 'notice':
      return body.level === 'warning'
        ? style.yellow(`warning: ${sanitizeLine(body.message)}`)
        : sanitizeLine(body.message);
    case 'output':
      return null;
  }
}

function renderStageEnd(result: StageResult, style: Style): string {
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
export function paintOutcome(state: string, style: Style): string {
  if (state === 'succeeded') return style.green(state);
  if (state === 'failed' || state === 'damaged') return style.red(state);
  if (state === 'cancelled' || state === 'terminated') return style.yellow(state);
  return state;
}

export function outputBytes(body: OutputBody): Uint8Array {
  return Buffer.from(body.data, body.encoding);
}

interface StreamLines {
  readonly stage: string;
  readonly stream: 'stdout' | 'stderr';
  push(data: Uint8Array): string[];
  flush(): string[];
}

function createStreamLines(stage: string, stream: 'stdout' | 'stderr'): StreamLines {
  // One decoder a stream: a character that two pieces share is put together again.
  const decoder = new TextDecoder('utf-8');
  let rest = '';
  return {
    stage,
    stream,
    push(data) {
      const text = rest + decoder.decode(data, { stream: true });
      const lines = text.split('\n');
      rest = lines.pop() ?? '';
      while (rest.length > MAX_LINE_CHARACTERS) {
        lines.push(rest.slice(0, MAX_LINE_CHARACTERS));
        rest = rest.slice(MAX_LINE_CHARACTERS);
      }
      return lines;
    },
    flush() {
      const last = rest + decoder.decode();
      rest = '';
      return last === '' ? [] : [last];
    },
  };
}
