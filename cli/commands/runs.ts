import { InvalidArgumentError, Option } from 'commander';
import type { EventStore } from '../../activities/ports/event-log.ts';
import { readDiskRoom } from '../../store/file/disk-room.ts';
import { createFileEventStore } from '../../store/file/event-store.ts';
import { runsDir } from '../../store/file/layout.ts';
import { listRunFolders } from '../../store/file/run-folder.ts';
import { emptyView, type RunView, withDamage } from '../../store/projection.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { readMendedViews } from '../mend-runs.ts';
import { toRunJson } from '../render/run-json.ts';
import { describeRoom, MAKE_ROOM } from '../render/disk.ts';
import { renderRuns } from '../render/runs-table.ts';
import { runIdsLatestFirst } from '../run-lookup.ts';

interface Options {
  readonly json?: boolean;
  readonly state?: RunView['state'];
  readonly limit: number;
}

const STATES: readonly RunView['state'][] = ['running', 'succeeded', 'failed', 'cancelled', 'terminated', 'damaged'];

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .addOption(new Option('--state <state>', 'only runs in this state').choices(STATES))
      .option('-n, --limit <number>', 'most runs to list', positiveInteger, 20);
  },
  async execute(_args, options, context) {
    const store = createFileEventStore(context.env.stateDir);
    const runIds = await runIdsLatestFirst(store);
    const nameless = await namelessRuns(context.env.stateDir, options);
    const views = [
      ...nameless,
      ...(await select(runIds, { ...options, limit: options.limit - nameless.length }, store, context)),
    ];
    if (options.json) {
      await context.stdout.write(`${JSON.stringify({ runs: views.map(toRunJson) })}\n`);
      return EXIT.success;
    }
    if (views.length === 0) {
      await context.stdout.write(
        runIds.length === 0
          ? context.advise('No runs yet. Start one: voidbox run FILE\n')
          : `No run is ${options.state ?? 'here'}.\n`,
      );
      return EXIT.success;
    }
    const lines = renderRuns(views, {
      style: context.stdout.style,
      width: context.stdout.width(),
      nowMs: context.now().getTime(),
    });
    const disk = readDiskRoom(context.env.stateDir);
    if (disk.isLow && views.some((view) => view.state === 'running')) {
      const { style } = context.stdout;
      lines.push(
        '',
        style.yellow(describeRoom(disk, context.env.stateDir)),
        `${style.cyan('help:')} ${context.advise(MAKE_ROOM)}`,
      );
    }
    await context.stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

/** Damaged runs of which not even the id can be read: they stand in front, under the names of their folders. */
async function namelessRuns(stateDir: string, { state, limit }: Options): Promise<readonly RunView[]> {
  if (state !== undefined && state !== 'damaged') return [];
  const folders = await listRunFolders(runsDir(stateDir));
  return folders
    .flatMap(({ name, problem }) => (problem === null ? [] : [withDamage(emptyView(name), problem.message)]))
    .slice(0, limit);
}

/** Reads page after page until enough runs are in the wanted state, so that a long past costs nothing. */
async function select(
  runIds: readonly string[],
  { state, limit }: Options,
  store: EventStore,
  context: CliContext,
): Promise<readonly RunView[]> {
  const chosen: RunView[] = [];
  if (limit <= 0) return chosen;
  for (let from = 0; from < runIds.length && chosen.length < limit; from += limit) {
    const views = await readMendedViews(runIds.slice(from, from + limit), store, context);
    chosen.push(...views.filter((view) => state === undefined || view.state === state));
  }
  return chosen.slice(0, limit);
}

function positiveInteger(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('It is a number from 1.');
  return Number(text);
}
