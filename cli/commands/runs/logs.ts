import { describeLowDisk } from '../../render/host/disk.ts';
import { Option } from 'commander';
import type { RunEvent } from '../../../domain/run/event.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { readRepairedViews } from '../../../app/runs/repair-runs.ts';
import { parseGrep, parseTail, readSince, Tail } from '../../runs/log-filter.ts';
import { formatOutputBytes, type ToolLines } from '../../../app/lines/event-lines.ts';
import { createEventSelection, createLogPrinter, type LogPlace, MAX_TAIL_LINES } from '../../../app/lines/log-lines.ts';
import { requireStage, toLogPlace } from '../../../app/lines/log-place.ts';
import type { Since } from '../../../domain/run/since.ts';
import { STATES_EVERY_MS } from '../../start/run-display.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';

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
        readSince,
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
    if (options.stage !== undefined && view !== undefined) await requireStage(options.stage, view, context);
    const detach = new AbortController();
    const listening = context.onInterrupt(() => detach.abort());
    const goesOn = options.follow === true && view?.outcome === null && view.damage === null;
    const presentSeq = goesOn ? view.seq : null;
    const writer = createLogWriter(options, toLogPlace(view), presentSeq, context);
    try {
      if (goesOn) await follow(runId, detach.signal, writer, context);
      else {
        const { reader } = await context.stores();
        for await (const event of reader.read(runId, createEventSelection(options, 0).afterSeq)) {
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

function createLogWriter(
  options: Options,
  place: LogPlace,
  presentSeq: number | null,
  { stdout, stderr, now }: CliContext,
): LogWriter {
  const nowMs = now().getTime();
  if (options.json || options.raw) {
    const { isWanted, isInTime } = createEventSelection(options, nowMs);
    const dataOf = ({ body }: RunEvent): Uint8Array | null => (body.type === 'output' ? formatOutputBytes(body) : null);
    return {
      async write(event) {
        if (!isWanted(event) || !isInTime(event.atMs)) return;
        const data = options.json ? `${JSON.stringify(event)}\n` : dataOf(event);
        if (data !== null) await stdout.write(data);
      },
      end: () => Promise.resolve(),
    };
  }
  const { timestamps, tools } = options;
  const printer = createLogPrinter(options, place, { style: stdout.style, timestamps, tools, nowMs });
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
      const lines = printer.push(event);
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
