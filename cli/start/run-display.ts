import type { RunEvent } from '../../domain/run/event.ts';
import type { RunView } from '../../store/run-view.ts';
import type { Sink } from '../context.ts';
import { createEventPrinter } from '../../app/lines/event-lines.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Advise } from '../render/runs/run-end.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { quoteStageName } from '../../app/runs/run-id.ts';
import { renderCounts, renderStages } from '../render/runs/stages.ts';
import { truncate } from '../render/text/width.ts';

/** Shows a run while it runs. */
export interface RunDisplay {
  /** A line about what is being done around the run: set-up, the stack, cancelling. */
  note(line: string): void;
  event(event: RunEvent, view: RunView): Promise<void>;
  /** Sets what Ctrl-C does from now on, if the display shows that. */
  onCtrlC(does: string): void;
  /** Leaves what was shown as it is; nothing is drawn afterwards. */
  close(): Promise<void>;
}

const REDRAW_EVERY_MS = 120;
/** The interval at which unfinished lines are checked if nothing is drawn again. */
export const STATES_EVERY_MS = 250;
/** Unfinished lines that are drawn above the stages. */
const MAX_STATE_LINES = 4;
/** Lines that may wait for the next redraw before the writer of events is held back. */
const MAX_WAITING_LINES = 500;
const MAX_STAGE_LINES = 16;
/**
 * The lines of the terminal that stages cannot use: the line below them, the cursor's line, and one line of output
 * above.
 */
const OTHER_LINES = 3;
/** Events that change what the user expects. */
const REMARKABLE: ReadonlySet<RunEvent['body']['type']> = new Set([
  'run-resumed',
  'vm-lost',
  'scope-restarted',
  'checkpoint-failed',
  'loop-visited',
  'stage-reattached',
  'stage-retrying',
  'stage-asking',
  'stage-answered',
  'network',
  'notice',
]);

/** Redrawn stage lines below the output on a terminal that can; append-only lines elsewhere. */
export function createRunDisplay(sink: Sink, advise: Advise): RunDisplay {
  return sink.canRedraw ? createLiveDisplay(sink, advise) : createPlainDisplay(sink, advise);
}

function answerHint(advise: Advise, runId: string, stage: string): string {
  return advise(`answer it: voidbox approve ${quoteRunId(runId)} ${quoteStageName(stage)} (or voidbox reject)`);
}

function createPlainDisplay(sink: Sink, advise: Advise): RunDisplay {
  let runId = '';
  const printer = createEventPrinter({
    style: sink.style,
    prefix: true,
    states: () => true,
    stream: 'both',
    answerHint: (stage) => answerHint(advise, runId, stage),
  });
  const print = async (lines: readonly string[]): Promise<void> => {
    if (lines.length > 0) await sink.write(lines.map((line) => `${line}\n`).join(''));
  };
  const timer = setInterval(() => void print(printer.takeStates(performance.now())), STATES_EVERY_MS);
  timer.unref();
  return {
    note: (line) => void print([`==> ${sanitizeLine(line)}`]),
    event(event, view) {
      runId = view.runId;
      return print(printer.push(event));
    },
    onCtrlC: () => undefined,
    close() {
      clearInterval(timer);
      return print(printer.flush());
    },
  };
}

function createLiveDisplay(sink: Sink, advise: Advise): RunDisplay {
  // The block shows ordinary states. Above it, print the output of stages and remarkable events.
  const printer = createEventPrinter({
    style: sink.style,
    prefix: true,
    states: (body) => REMARKABLE.has(body.type),
    stream: 'both',
    answerHint: (stage) => answerHint(advise, view?.runId ?? '', stage),
  });
  let view: RunView | null = null;
  let waiting: string[] = [];
  let blockHeight = 0;
  let frame = 0;
  let closed = false;
  let ctrlC = 'cancels';
  const draw = async (withBlock: boolean): Promise<void> => {
    const block = withBlock && view !== null ? renderBlock(view, sink, { frame, ctrlC: closed ? null : ctrlC }) : [];
    // Unfinished lines are between the printed lines and the stages, as long as the terminal has room.
    const room = Math.min(MAX_STATE_LINES, sink.height() - OTHER_LINES - block.length);
    if (block.length > 0 && room > 0 && !closed)
      block.unshift(
        ...printer
          .readStates(performance.now())
          .slice(-room)
          .map((line) => truncate(line, sink.width() - 1)),
      );
    const text = composeFrame(blockHeight, waiting, block);
    waiting = [];
    blockHeight = block.length;
    if (text !== '') await sink.write(text);
  };
  const timer = setInterval(() => {
    frame += 1;
    void draw(true);
  }, REDRAW_EVERY_MS);
  return {
    note(line) {
      waiting.push(`${sink.style.dim('==>')} ${sanitizeLine(line)}`);
      if (view === null) void draw(false);
    },
    async event(event, now) {
      view = now;
      waiting.push(...printer.push(event));
      if (waiting.length > MAX_WAITING_LINES) await draw(true);
    },
    onCtrlC(does) {
      ctrlC = does;
    },
    async close() {
      if (closed) return;
      closed = true;
      clearInterval(timer);
      waiting.push(...printer.flush());
      await draw(true);
    },
  };
}

/**
 * Renders the stages and the line below them, never higher than the terminal: the cursor cannot go up beyond its first
 * line.
 * @param ctrlC what Ctrl-C does; null if no handler listens
 */
export function renderBlock(
  view: RunView,
  sink: Pick<Sink, 'style' | 'width' | 'height'>,
  now: { readonly frame: number; readonly ctrlC: string | null },
): string[] {
  const nowMs = Date.now();
  const maxLines = Math.max(1, Math.min(MAX_STAGE_LINES, sink.height() - OTHER_LINES));
  const options = { style: sink.style, width: sink.width() - 1, nowMs, frame: now.frame, maxLines };
  const booting = view.vms.filter((vm) => vm.state === 'starting').map((vm) => sanitizeLine(vm.scope));
  const boot =
    booting.length === 0 ? '' : ` · booting ${booting.length === 1 ? `VM ${booting[0]}` : `${booting.length} VMs`}`;
  // The caller that closes the display prints how the run ended.
  if (view.state !== 'running') return renderStages(view, options);
  const hint = now.ctrlC === null ? '' : ` · Ctrl-C ${now.ctrlC}`;
  return [
    ...renderStages(view, options),
    truncate(sink.style.dim(`${renderCounts(view, nowMs)}${boot}${hint}`), options.width),
  ];
}

/** Goes up over the last block, erases it, prints new lines and the new block (ECMA-48 CUU and ED). Pure. */
export function composeFrame(lastBlockHeight: number, lines: readonly string[], block: readonly string[]): string {
  if (lastBlockHeight === 0 && lines.length === 0 && block.length === 0) return '';
  const erase = lastBlockHeight === 0 ? '' : `\u001b[${lastBlockHeight}A\r\u001b[J`;
  return erase + [...lines, ...block].map((line) => `${line}\n`).join('');
}
