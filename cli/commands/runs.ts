import { Option } from 'commander';
import type { IndexedRun, RunPosition } from '../../activities/ports/run-index.ts';
import { readDiskRoom } from '../../store/file/disk-room.ts';
import { emptyView, type RunView, withDamage } from '../../store/projection.ts';
import { countOf } from '../typed-count.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { mendRuns, readMendedViews } from '../mend-runs.ts';
import { toRunJson } from '../render/run-json.ts';
import { describeRoom, MAKE_ROOM } from '../render/disk.ts';
import { renderRuns } from '../render/runs-table.ts';

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
      .option('-n, --limit <number>', 'most runs to list', countOf(6), 20);
  },
  async execute(_args, options, context) {
    const views = await select(options, context);
    if (options.json) {
      await context.stdout.write(`${JSON.stringify({ runs: views.map(toRunJson) })}\n`);
      return EXIT.success;
    }
    if (views.length === 0) {
      await context.stdout.write(
        (await (await context.stores()).index.list({ limit: 1 })).runs.length === 0
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

/**
 * Page after page until enough runs are in the wanted state, so that a long past costs nothing. The index knows of the
 * events alone: a run whose records are damaged may stand in it under any state.
 */
async function select({ state, limit }: Options, context: CliContext): Promise<readonly RunView[]> {
  const { index } = await context.stores();
  const wanted = state === undefined || state === 'damaged' ? {} : { state };
  // What somebody ended from outside stands in the index as running until it is looked up.
  if (state !== undefined && state !== 'damaged') await mendRuns(await index.openRuns(), context);
  const chosen: RunView[] = [];
  let before: RunPosition | null = null;
  do {
    const page = await index.list({ ...wanted, ...(before === null ? {} : { before }), limit });
    const views = await viewsOf(page.runs, context);
    chosen.push(...views.filter((view) => state === undefined || view.state === state));
    before = page.next;
  } while (before !== null && chosen.length < limit);
  return chosen.slice(0, limit);
}

async function viewsOf(runs: readonly IndexedRun[], context: CliContext): Promise<readonly RunView[]> {
  const views = await readMendedViews(
    runs.flatMap(({ runId }) => (runId === null ? [] : [runId])),
    context,
  );
  const next = views.values();
  return runs.map(({ runId, label, problem }) => {
    const view = runId === null ? undefined : next.next().value;
    return view ?? withDamage(emptyView(label), problem ?? '');
  });
}
