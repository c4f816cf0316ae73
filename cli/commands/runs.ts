import { Option } from 'commander';
import type { IndexedRun, RunPosition } from '../../activities/ports/run-index.ts';
import { readDiskRoom } from '../../store/file/disk-room.ts';
import { openQuestionsOf } from '../../store/open-questions.ts';
import { emptyView, type RunView, withDamage } from '../../store/run-view.ts';
import { parseSinceTime } from '../log-filter.ts';
import { countOf } from '../typed-count.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { whyRunsStandStill } from '../open-runs.ts';
import { repairRuns, readRepairedViews } from '../repair-runs.ts';
import { toRunJson } from '../render/run-json.ts';
import { describeRoom, MAKE_ROOM } from '../render/disk.ts';
import { renderRuns } from '../render/runs-table.ts';

interface Options {
  readonly json?: boolean;
  readonly state?: RunView['state'];
  readonly waiting?: boolean;
  readonly name?: string;
  readonly since?: ReturnType<typeof parseSinceTime>;
  readonly limit: number;
  readonly all?: boolean;
}

/** Runs that are read from the index at once. */
const MOST_PER_PAGE = 200;

const STATES: readonly RunView['state'][] = ['running', 'succeeded', 'failed', 'cancelled', 'terminated', 'damaged'];

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .addOption(new Option('--state <state>', 'only runs in this state').choices(STATES))
      .option('--name <name>', 'only runs of the spec with this name')
      .option(
        '--since <when>',
        'only runs that started at most this long ago (90s, 10m, 2h, 1d), or at or after this time',
        parseSinceTime,
      )
      .addOption(new Option('-w, --waiting', 'only runs that wait for an answer').conflicts('state'))
      .option('-n, --limit <number>', 'list at most this many runs', countOf(6), 20)
      .addOption(new Option('-a, --all', 'list every run').conflicts('limit'));
  },
  async execute(_args, options, context) {
    const { views, hasMore } = await select(options, context);
    if (options.json) {
      await context.stdout.write(`${JSON.stringify({ runs: views.map(toRunJson), hasMore, admitting: null })}\n`);
      return EXIT.success;
    }
    if (views.length === 0) {
      await context.stdout.write(
        options.waiting
          ? 'No run waits for an answer.\n'
          : (await (await context.stores()).index.list({ limit: 1 })).runs.length === 0
            ? context.advise('No runs yet. Start one: voidbox run FILE\n')
            : options.name === undefined && options.since === undefined
              ? `No run is ${options.state ?? 'here'}.\n`
              : 'No run is like that.\n',
      );
      return EXIT.success;
    }
    const lines = renderRuns(views, {
      style: context.stdout.style,
      width: context.stdout.width(),
      nowMs: context.now().getTime(),
    });
    if (hasMore)
      lines.push(
        context.stdout.style.dim(
          context.advise(`The latest ${views.length} are shown. More: voidbox runs --limit N; all: voidbox runs --all`),
        ),
      );
    const standstill = views.some(({ state }) => state === 'running') ? await whyRunsStandStill(context) : null;
    if (standstill !== null) lines.push('', context.stdout.style.yellow(standstill));
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
async function select(
  { state: asked, waiting, name, since, limit, all }: Options,
  context: CliContext,
): Promise<{ readonly views: readonly RunView[]; readonly hasMore: boolean }> {
  const { index } = await context.stores();
  const state = waiting ? 'running' : asked;
  const isWanted = (view: RunView): boolean =>
    (state === undefined || view.state === state) && (!waiting || openQuestionsOf(view).length > 0);
  const wanted = {
    ...(state === undefined || state === 'damaged' ? {} : { state }),
    ...(name === undefined ? {} : { name }),
    ...(since === undefined ? {} : { sinceMs: 'atMs' in since ? since.atMs : context.now().getTime() - since.agoMs }),
  };
  // What somebody ended from outside stands in the index as running until it is looked up.
  if (state !== undefined && state !== 'damaged') await repairRuns(await index.openRuns(), context);
  // One more than is shown tells whether there are more.
  const enough = all === true ? Number.POSITIVE_INFINITY : limit + 1;
  const chosen: RunView[] = [];
  let before: RunPosition | null = null;
  do {
    const page = await index.list({
      ...wanted,
      ...(before === null ? {} : { before }),
      limit: Math.min(enough, MOST_PER_PAGE),
    });
    const views = await viewsOf(page.runs, context);
    chosen.push(...views.filter(isWanted));
    before = page.next;
  } while (before !== null && chosen.length < enough);
  return { views: chosen.slice(0, enough - 1), hasMore: chosen.length >= enough };
}

async function viewsOf(runs: readonly IndexedRun[], context: CliContext): Promise<readonly RunView[]> {
  const views = await readRepairedViews(
    runs.flatMap(({ runId }) => (runId === null ? [] : [runId])),
    context,
  );
  const next = views.values();
  return runs.map(({ runId, label, problem }) => {
    const view = runId === null ? undefined : next.next().value;
    return view ?? withDamage(emptyView(label), problem ?? '');
  });
}
