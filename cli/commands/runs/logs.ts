import { describeLowDisk } from '../../render/host/disk.ts';
import { Option } from 'commander';
import type { AdmissionRecord } from '../../../activities/admission/admission-record.ts';
import type { RunEvent } from '../../../domain/run/event.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { hasStage, isOfStage } from '../../runs/log-stage.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { readRepairedViews } from '../../../app/runs/repair-runs.ts';
import { MAX_TAIL_LINES, parseGrep, parseSince, parseTail, type Since, Tail } from '../../runs/log-filter.ts';
import {
  createEventPrinter,
  formatItemCount,
  formatOutputBytes,
  type ToolLines,
} from '../../render/runs/event-lines.ts';
import { STATES_EVERY_MS } from '../../start/run-display.ts';
import type { RunView } from '../../../store/run-view.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';
import { shorten } from '../../../domain/units/quote.ts';

interface Options {
  readonly follow?: boolean;
  readonly stage?: string;
  readonly stream: 'stdout' | 'stderr' | 'both';
  readonly since?: Since;
  readonly tail?: number;
  readonly grep?: string;
  readonly timestamps?: boolean;
  readonly tools?: ToolLines;
  readonly network?: boolean;
  readonly raw?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .option('-f, --follow', 'follow the output until the run ends')
      .option(
        '-s, --stage <stage>',
        'only this stage, without its name before each line; for a stage with items all items, or one: "STAGE[3]", "STAGE[3].WITHIN"',
      )
      .addOption(
        new Option('--stream <stream>', 'only this stream').choices(['stdout', 'stderr', 'both']).default('both'),
      )
      .option(
        '--since <when>',
        'only events since: an age (10m, 2h), a time (ISO 8601, in UTC without a zone) or the `seq` of an event',
        parseSince,
      )
      .option('--tail <lines>', `start with this many last lines, at most ${MAX_TAIL_LINES}`, parseTail)
      .option('--grep <text>', 'only lines that contain this text; for patterns, pipe into grep', parseGrep)
      .option('-t, --timestamps', 'the time (UTC) before each line')
      .addOption(
        new Option(
          '--tools <output>',
          "output of an agent's tools: none, or for each call the last 2 KiB (short) or 16 KiB (full) (default: short)",
        ).choices(['none', 'short', 'full']),
      )
      .option('--network', 'only refused and ended connections of VMs, with bytes and time')
      .option(
        '--raw',
        'the unchanged bytes of a stage, with escape sequences; for an agent, the stream of its command line',
      );
  },
  async execute([text = ''], options, context) {
    checkUsage(options);
    const runId = await findRunHere('logs', text, context);
    const [view] = await readRepairedViews([runId], context);
    if (options.stage !== undefined && view !== undefined && view.stages.length > 0)
      await checkStage(options.stage, view, context);
    const detach = new AbortController();
    const listening = context.onInterrupt(() => detach.abort());
    const stages = view?.stages.map(({ id }) => id) ?? [];
    const goesOn = options.follow === true && view?.outcome === null && view.damage === null;
    const itemsOf = new Set(view?.stages.flatMap(({ id, items }) => (items === null ? [] : [id])));
    const agents = view?.agents ?? [];
    const place = { stages, agents, itemsOf, presentSeq: goesOn ? view.seq : null };
    const writer = createLogWriter(options, place, context);
    try {
      if (goesOn) await follow(runId, detach.signal, writer, context);
      else {
        const { reader } = await context.stores();
        for await (const event of reader.read(runId, seqOf(options.since))) {
          if (detach.signal.aborted) break;
          await writer.write(event);
        }
      }
    } finally {
      // If the run is damaged, print what was read before the damage.
      await writer.end();
      listening.dispose();
    }
    return detach.signal.aborted ? EXIT.interrupted : EXIT.success;
  },
});

async function checkStage(name: string, { runId, stages: own }: RunView, context: CliContext): Promise<void> {
  const { records } = await context.stores();
  const admission = (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  const inItems = (admission?.plan.stages ?? []).filter(({ of }) => of !== undefined);
  const ofItems = inItems.map(({ id }) => id);
  const lists = inItems.flatMap(({ id, each }) => (each === undefined ? [] : [id]));
  if (hasStage(name, { own, ofItems, lists })) return;
  const shown = own.map(({ id, items }) =>
    items === null ? id : `${id} (${formatItemCount(items.total)}, such as \`${id}[0]\`)`,
  );
  throw createUsageError(
    `run ${runId} has no stage \`${shorten(name)}\``,
    `Its stages: ${[...shown, ...ofItems].join(', ')}`,
  );
}

/**
 * Follows a run. This keeps the embedded stack alive, as `run` does, so that the run does not stop while a user watches
 * it.
 */
async function follow(runId: string, signal: AbortSignal, writer: LogWriter, context: CliContext): Promise<ExitCode> {
  const { openRunControl } = await import('../../../app/control/open-run-control.ts');
  const note = (line: string): void => void context.stderr.write(`==> ${line}\n`);
  const run = await (await openRunControl(context)).connect(runId, note);
  await run.follow({
    signal,
    onEvent: (event) => writer.write(event),
    onTrouble: (message) => note(`retrying: ${message}`),
    onNotice: note,
    onLowDisk: (disk) => note(`retrying: ${describeLowDisk(disk, context.env.stateDir)}`),
  });
  return EXIT.success;
}

interface LogWriter {
  write(event: RunEvent): Promise<void>;
  end(): Promise<void>;
}

interface LogPlace {
  /** In the order of the spec. */
  readonly stages: readonly string[];
  /** Stages whose work is an agent. */
  readonly agents: readonly string[];
  /** Stages that are done for each item of a list, by what is known so far. */
  readonly itemsOf: ReadonlySet<string>;
  /** The cursor of the last event before following began; null without following. */
  readonly presentSeq: number | null;
}

function createLogWriter(
  options: Options,
  { stages, agents, itemsOf, presentSeq }: LogPlace,
  { stdout, stderr, now }: CliContext,
): LogWriter {
  const afterSeq = seqOf(options.since);
  const fromMs = momentOf(options.since, now().getTime());
  const isWanted = ({ body, seq }: RunEvent): boolean => {
    if (seq <= afterSeq) return false;
    if (options.network) return body.type === 'network';
    if (options.stage !== undefined && !isOfStage(body, options.stage)) return false;
    return body.type !== 'output' || options.stream === 'both' || options.stream === body.stream;
  };
  if (options.json || options.raw) {
    const dataOf = ({ body }: RunEvent): Uint8Array | null => (body.type === 'output' ? formatOutputBytes(body) : null);
    return {
      async write(event) {
        if (!isWanted(event) || event.atMs < fromMs) return;
        const data = options.json ? `${JSON.stringify(event)}\n` : dataOf(event);
        if (data !== null) await stdout.write(data);
      },
      end: () => Promise.resolve(),
    };
  }
  const printer = createEventPrinter({
    style: stdout.style,
    // If the stage has items, each line names its item.
    prefix:
      options.stage === undefined ||
      [...itemsOf].some((id) => id === options.stage || options.stage!.startsWith(`${id}.`)),
    states: () => options.stage === undefined,
    everyRefusal: options.network ?? false,
    stream: options.stream,
    timestamps: options.timestamps ?? false,
    tools: options.tools ?? 'short',
    isWanted: ({ text, atMs }) => atMs >= fromMs && (options.grep === undefined || text.includes(options.grep)),
    stages,
    agents,
  });
  const tail = options.tail === undefined ? null : new Tail(options.tail);
  let isEmpty = true;
  const isFiltered = options.since !== undefined || options.grep !== undefined || tail !== null;
  const print = async (lines: readonly string[]): Promise<void> => {
    if (lines.length > 0) isEmpty = false;
    if (lines.length > 0) await stdout.write(lines.map((line) => `${line}\n`).join(''));
  };
  // Earlier events are printed first, and with `--tail` only their last lines.
  let isPresent = false;
  const timer = setInterval(() => {
    if (isPresent) void print(printer.takeStates(performance.now()));
  }, STATES_EVERY_MS);
  timer.unref();
  return {
    async write(event) {
      const lines = isWanted(event) ? printer.push(event) : [];
      await print(tail === null ? lines : tail.push(lines));
      if (presentSeq === null || event.seq < presentSeq) return;
      isPresent = true;
      await print(tail?.release() ?? []);
    },
    async end() {
      clearInterval(timer);
      const lines = printer.flush();
      await print(tail === null ? lines : tail.push(lines));
      await print(tail?.release() ?? []);
      // Nothing at all could be a mistake as well.
      if (options.network && isEmpty && !isFiltered)
        await stderr.write('==> no VM was refused a connection, and none has ended one\n');
    },
  };
}

/** Lines are what these are about, and neither JSON nor raw bytes are lines. */
function checkUsage(options: Options): void {
  if (options.network) {
    const other = options.raw ? '--raw' : options.stage !== undefined ? '--stage' : null;
    if (other !== null)
      throw createUsageError(
        `--network and ${other} cannot be combined`,
        other === '--stage'
          ? 'Remove --stage: stages may share a VM, and each line names the VM'
          : 'Remove one of them.',
      );
  }
  if (options.raw && options.json) throw createUsageError('--raw and --json cannot be combined');
  const form = options.json ? '--json' : options.raw ? '--raw' : null;
  if (form === null) return;
  const ofLines = (['tail', 'grep', 'timestamps', 'tools'] as const).find((name) => options[name] !== undefined);
  if (ofLines === undefined) return;
  throw createUsageError(
    `--${ofLines} and ${form} cannot be combined`,
    options.json ? 'Each event is one line and has its time (`atMs`): pipe into tail, grep or jq' : null,
  );
}

function seqOf(since: Since | undefined): number {
  return since !== undefined && 'seq' in since ? since.seq : 0;
}

function momentOf(since: Since | undefined, nowMs: number): number {
  if (since === undefined || 'seq' in since) return Number.NEGATIVE_INFINITY;
  return 'atMs' in since ? since.atMs : nowMs - since.agoMs;
}
