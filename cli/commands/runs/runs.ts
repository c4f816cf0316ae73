import { Option } from 'commander';
import type { RunPosition } from '../../../activities/ports/run-index.ts';
import { openQuestionsOf } from '../../../store/open-questions.ts';
import type { RunView } from '../../../store/run-view.ts';
import type { AskingRuns } from '../../../client/runs/asking-runs.ts';
import type { WaitingAdmissions } from '../../../client/runs/waiting-admissions.ts';
import { parseSinceTime } from '../../runs/log-filter.ts';
import { countOf } from '../../typed-count.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { explainUnknownAdmissions, explainStalledRuns } from '../../runs/open-runs.ts';
import { readViewsOf } from '../../../app/runs/list-runs.ts';
import { repairRuns } from '../../../app/runs/repair-runs.ts';
import { toRunJson } from '../../../app/json/run-json.ts';
import { describeRoom, MAKE_ROOM } from '../../render/host/disk.ts';
import { renderRuns } from '../../render/runs/runs-table.ts';
import { renderWaitingAdmissions, toAdmittingJson } from '../../render/runs/waiting-admissions.ts';
import { readAskingRuns } from '../../../app/runs/asking-runs.ts';
import { renderAskingRuns } from '../../render/runs/asking-runs.ts';
import { readWaitingAdmissions } from '../../../app/runs/waiting-admissions.ts';

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
    const admissions = asksForAdmissions(options) ? await readWaitingAdmissions(context) : null;
    const waiting = admissions === null ? null : filterStartedSince(admissions, sinceMsOf(options.since, context));
    const asking = options.waiting === true ? await readAskingElsewhere(options, context) : null;
    if (options.json) {
      const admitting = waiting === null ? null : toAdmittingJson(waiting);
      await context.stdout.write(`${JSON.stringify({ runs: views.map(toRunJson), hasMore, admitting, asking })}\n`);
      return EXIT.success;
    }
    const { style } = context.stdout;
    const display = { style, width: context.stdout.width(), nowMs: context.now().getTime() };
    const { advise } = context;
    const isOwnServer = context.env.temporalConfigured;
    const waitingLines = waiting === null ? [] : renderWaitingAdmissions(waiting, { ...display, isOwnServer, advise });
    const listed = renderRuns(views, display);
    if (hasMore)
      listed.push(
        style.dim(
          advise(`The latest ${views.length} are shown. More: voidbox runs --limit N; all: voidbox runs --all`),
        ),
      );
    const askingLines = asking === null ? [] : renderAskingRuns(asking, { ...display, advise });
    const isEmpty = views.length === 0 && waitingLines.length === 0 && askingLines.length === 0;
    const blocks = [
      views.length > 0 ? listed : isEmpty ? [await explainEmptyList(options, context)] : [],
      waitingLines,
      askingLines,
      await renderDelayLines(views, { options, isKnown: waiting !== null, context }),
    ];
    const lines = blocks
      .filter((block) => block.length > 0)
      .flatMap((block, at) => (at === 0 ? block : ['', ...block]));
    await context.stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

async function readAskingElsewhere(options: Options, context: CliContext): Promise<AskingRuns | null> {
  const asking = await readAskingRuns(context, sinceMsOf(options.since, context));
  if (asking === null || options.name === undefined) return asking;
  return { ...asking, runs: asking.runs.filter(({ name }) => name === options.name) };
}

async function explainEmptyList({ waiting, state, name, since }: Options, context: CliContext): Promise<string> {
  if (waiting === true) return 'No run waits for an answer.';
  const { index } = await context.stores();
  if ((await index.list({ limit: 1 })).runs.length === 0)
    return context.advise('No runs yet. Start one: voidbox run FILE');
  return name === undefined && since === undefined ? `No run is ${state ?? 'here'}.` : 'No run matches these options.';
}

interface DelayContext {
  readonly options: Options;
  /** The server told which runs wait for admission. */
  readonly isKnown: boolean;
  readonly context: CliContext;
}

/** Returns lines about each cause that delays open runs or hides them. */
async function renderDelayLines(
  views: readonly RunView[],
  { options, isKnown, context }: DelayContext,
): Promise<readonly string[]> {
  const { style } = context.stdout;
  const { stateDir } = context.env;
  const isRunning = views.some(({ state }) => state === 'running');
  const standstill = isRunning ? await explainStalledRuns(context) : null;
  const unknown = isKnown || !asksForAdmissions(options) ? null : await explainUnknownAdmissions(context);
  const disk = (await context.stores()).local?.readRoom() ?? null;
  const blocks = [
    standstill === null ? [] : [style.yellow(standstill)],
    // The stack is named once.
    unknown === null || standstill !== null ? [] : [style.dim(unknown)],
    disk !== null && disk.isLow && isRunning
      ? [style.yellow(describeRoom(disk, stateDir)), `${style.cyan('help:')} ${context.advise(MAKE_ROOM)}`]
      : [],
  ];
  return blocks.filter((block) => block.length > 0).flatMap((block, at) => (at === 0 ? block : ['', ...block]));
}

/** Runs that wait for admission have no name that is known here, and none of them asks a question. */
function asksForAdmissions({ state, waiting, name }: Options): boolean {
  return (state === undefined || state === 'running') && waiting !== true && name === undefined;
}

function filterStartedSince(admissions: WaitingAdmissions, sinceMs: number | undefined): WaitingAdmissions {
  if (sinceMs === undefined) return admissions;
  return { ...admissions, runs: admissions.runs.filter(({ startedAtMs }) => startedAtMs >= sinceMs) };
}

function sinceMsOf(since: Options['since'], context: CliContext): number | undefined {
  if (since === undefined) return undefined;
  return 'atMs' in since ? since.atMs : context.now().getTime() - since.agoMs;
}

/**
 * Reads page after page until enough runs have the wanted state, so that a long history costs nothing. The index knows
 * only events: it may list a run with damaged records under any state.
 */
async function select(
  { state: asked, waiting, name, since, limit, all }: Options,
  context: CliContext,
): Promise<{ readonly views: readonly RunView[]; readonly hasMore: boolean }> {
  const { index } = await context.stores();
  const state = waiting ? 'running' : asked;
  const isWanted = (view: RunView): boolean =>
    (state === undefined || view.state === state) && (!waiting || openQuestionsOf(view).length > 0);
  const sinceMs = sinceMsOf(since, context);
  const wanted = {
    ...(state === undefined || state === 'damaged' ? {} : { state }),
    ...(name === undefined ? {} : { name }),
    ...(sinceMs === undefined ? {} : { sinceMs }),
  };
  // The index lists a run that was ended from outside as running until a command repairs it.
  if (state !== undefined && state !== 'damaged') await repairRuns(await index.openRuns(), context);
  // Read one more than is shown, to find out whether there are more.
  const enough = all === true ? Number.POSITIVE_INFINITY : limit + 1;
  const chosen: RunView[] = [];
  let before: RunPosition | null = null;
  do {
    const page = await index.list({
      ...wanted,
      ...(before === null ? {} : { before }),
      limit: Math.min(enough, MOST_PER_PAGE),
    });
    const views = await readViewsOf(page.runs, context);
    chosen.push(...views.filter(isWanted));
    before = page.next;
  } while (before !== null && chosen.length < enough);
  return { views: chosen.slice(0, enough - 1), hasMore: chosen.length >= enough };
}
