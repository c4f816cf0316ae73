/** One round of a storm: two runs, blows while they go on, then a look at all that they left. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Rig, type RunningCli, until } from '../e2e/rig.ts';
import { findingsOf, isExplainedFailure } from './findings.ts';
import { brokenArtifacts, fileLeftovers, folderFindings } from './leftovers.ts';
import { JailedProcesses, strayProcesses, targetsOf } from './processes.ts';
import type { Random } from './random.ts';
import { boxes, cancelled, lines, shared, type Story } from './story.ts';
import { describeBlow, planStrikes, type Blow, type Strike } from './strikes.ts';

/** From the last blow to the end of both runs: three lost VMs, one after the other, on a busy machine. */
const FINISH_LIMIT_MS = 240_000;
/** The janitor looks every 20 s. */
const LEFTOVERS_LIMIT_MS = 60_000;
const CLI_LIMIT_MS = 120_000;
const FIRST_VM_LIMIT_MS = 30_000;
const TARGET_LIMIT_MS = 5_000;
/** What a command ends with when the stack does not answer. */
const EXIT_ENVIRONMENT = 3;

interface Player {
  readonly runId: string;
  readonly story: Story;
  readonly specFile: string;
}

export interface RoundReport {
  readonly findings: readonly string[];
  /** What was hit, as it was hit. */
  readonly blows: readonly string[];
}

export async function playRound(rig: Rig, name: string, random: Random): Promise<RoundReport> {
  const players = storiesOf(random).map((story, index) => prepare(rig, `${name}-${index + 1}-${story.name}`, story));
  const strikes = planStrikes(random);
  const blows: string[] = [];
  const killed = new Set<number>();
  const jailed = new JailedProcesses(rig);
  const watch = setInterval(() => jailed.look(), 300);
  try {
    const clis = players.map(({ specFile, runId, story }) => startRun(rig, specFile, runId, story));
    const cancels = players.map(async ({ runId, story }) => {
      if (story.cancelAtMs !== null) await sleep(story.cancelAtMs);
      if (story.cancelAtMs !== null) await cancel(rig, runId);
    });
    // A failed cancel is looked at below; until then nobody waits for it.
    const cancelling = Promise.allSettled(cancels);
    const wakes: Promise<void>[] = [];
    await Promise.all(
      strikes.map(async (strike) => {
        await momentOf(strike, rig);
        blows.push(...(await Promise.all(strike.blows.map((blow) => deliver(rig, clis, blow, killed, wakes)))));
      }),
    );
    await Promise.all(wakes);
    const findings = [...(await bringToEnd(rig, players, clis, killed, cancelling)), ...(await checkAll(rig, players, jailed))];
    return { findings, blows };
  } finally {
    clearInterval(watch);
  }
}

function storiesOf(random: Random): readonly Story[] {
  const all = [() => lines(), () => shared(), () => boxes(), () => cancelled(random.between(2_000, 12_000))];
  const first = random.below(all.length);
  const second = (first + random.between(1, all.length - 1)) % all.length;
  return [all[first]!(), all[second]!()];
}

function prepare(rig: Rig, runId: string, story: Story): Player {
  const folder = join(rig.specDir, runId);
  mkdirSync(folder);
  for (const [path, text] of Object.entries(story.before)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const specFile = join(folder, 'spec.yaml');
  writeFileSync(specFile, story.spec);
  return { runId, story, specFile };
}

function startRun(rig: Rig, specFile: string, runId: string, story: Story, ...options: readonly string[]): RunningCli {
  return rig.startWith(story.variables, 'run', specFile, '--run-id', runId, ...options);
}

/** A cancel needs the run, and the server, which a blow may have taken away: like a person, it is asked for again. */
async function cancel(rig: Rig, runId: string): Promise<void> {
  const isOpen = async (): Promise<boolean> => ['running', 'unknown', 'cancelling'].includes(await stateOf(rig, runId));
  await until(
    `${runId} to be cancelled`,
    FINISH_LIMIT_MS,
    async () => {
      if (!(await isOpen())) return true;
      await within(rig.start('cancel', runId));
      return !(await isOpen());
    },
    1_000,
  );
}

/** `unknown` where no such run is. */
async function stateOf(rig: Rig, runId: string): Promise<string> {
  const { code, stdout } = await rig.cli('status', runId, '--json');
  return code === 0 ? (JSON.parse(stdout) as { state: string }).state : 'unknown';
}

async function momentOf({ from, atMs }: Strike, rig: Rig): Promise<void> {
  // Earlier strikes may keep VMs from coming: then this one falls all the same.
  for (const end = Date.now() + FIRST_VM_LIMIT_MS; from === 'vm' && rig.keepers().length === 0 && Date.now() < end;) await sleep(50);
  await sleep(atMs);
}

async function deliver(rig: Rig, clis: readonly RunningCli[], blow: Blow, killed: Set<number>, wakes: Promise<void>[]): Promise<string> {
  const pid = await targetOf(rig, clis, blow);
  if (pid === null) return `${describeBlow(blow)} (none there)`;
  try {
    if (blow.stopMs === null) {
      killed.add(pid);
      rig.kill(pid);
    } else {
      rig.pause(pid);
      wakes.push(sleep(blow.stopMs).then(() => rig.wake(pid)));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
  return describeBlow(blow);
}

/** What another blow has just ended comes back soon, and so does a VM: a blow waits a little for what it is to hit. */
async function targetOf(rig: Rig, clis: readonly RunningCli[], { target, which }: Blow): Promise<number | null> {
  for (const end = Date.now() + TARGET_LIMIT_MS; ; await sleep(100)) {
    const pids = targetsOf(rig, clis)[target];
    if (pids.length > 0) return pids[which % pids.length]!;
    if (Date.now() > end) return null;
  }
}

/** What a person does after a storm: brings the stack up, starts what never started, waits. */
async function bringToEnd(
  rig: Rig,
  players: readonly Player[],
  clis: readonly RunningCli[],
  killed: ReadonlySet<number>,
  cancelling: Promise<readonly PromiseSettledResult<void>[]>,
): Promise<readonly string[]> {
  const findings: string[] = [];
  const up = await within(rig.start('up'));
  if (up.code !== 0) findings.push(`up ended with ${up.code}: ${up.stderr.trim()}`);
  const startedAnew = new Set<string>();
  for (const [index, player] of players.entries()) {
    const cli = clis[index]!;
    if (!(await hasBegun(rig, player.runId, cli))) {
      startedAnew.add(player.runId);
      findings.push(...(await beginAgain(rig, player, cli)));
    }
  }
  for (const { runId } of players) {
    try {
      await rig.finish(runId, FINISH_LIMIT_MS);
    } catch (error) {
      findings.push(`${String(error)}; ${(await rig.cli('status', runId)).stdout.trim()}`);
    }
  }
  for (const settled of await cancelling) if (settled.status === 'rejected') findings.push(`cancel: ${String(settled.reason)}`);
  for (const [index, { runId, story }] of players.entries()) {
    const cli = clis[index]!;
    const wasKilled = cli.child.pid !== undefined && killed.has(cli.child.pid);
    const { code, stdout, stderr } = await within(cli);
    if (!wasKilled && !startedAnew.has(runId)) findings.push(...cliFindings(runId, story, code, stdout, stderr, await stateOf(rig, runId)));
  }
  return findings;
}

/** False when its command line is gone without having started it. */
async function hasBegun(rig: Rig, runId: string, cli: RunningCli): Promise<boolean> {
  const answer = await until(`${runId} to begin, or its command to end`, CLI_LIMIT_MS, async () => {
    const hasEnded = cli.child.exitCode !== null || cli.child.signalCode !== null;
    if ((await stateOf(rig, runId)) !== 'unknown') return 'begun';
    return hasEnded ? 'not begun' : null;
  });
  return answer === 'begun';
}

/** A command that could not reach the stack says that it may be typed once more; anything else that it says is a finding. */
async function beginAgain(rig: Rig, { runId, specFile, story }: Player, cli: RunningCli): Promise<readonly string[]> {
  const { code, stderr } = await cli.done;
  const findings = code === null || code === EXIT_ENVIRONMENT ? [] : [`run ${runId} was not started: ${stderr.trim()}`];
  const again = await within(startRun(rig, specFile, runId, story, '--detach'));
  return again.code === 0 ? findings : [...findings, `run ${runId} could not be started again: ${again.stderr.trim()}`];
}

/** A command line that was left alone says how the run ended, whatever happened to the stack meanwhile. */
function cliFindings(runId: string, story: Story, code: number | null, stdout: string, stderr: string, state: string): readonly string[] {
  const wanted = state === 'succeeded' ? 0 : 1;
  if (code !== wanted) return [`run ${runId}, which is ${state}, ended its command with ${code}: ${stderr.trim().split('\n').slice(-4).join(' | ')}`];
  return state === 'succeeded' && stdout !== story.result ? [`run ${runId} printed ${JSON.stringify(stdout.slice(-200))} as its result`] : [];
}

async function within(cli: RunningCli): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const timer = setTimeout(() => cli.child.kill('SIGKILL'), CLI_LIMIT_MS);
  const result = await cli.done;
  clearTimeout(timer);
  return result;
}

async function checkAll(rig: Rig, players: readonly Player[], jailed: JailedProcesses): Promise<readonly string[]> {
  const findings: string[] = [];
  const listed = await rig.cli('runs', '--json', '--limit', '1000');
  const states = new Map<string, string>();
  if (listed.code !== 0) findings.push(`runs ended with ${listed.code}: ${listed.stderr.trim()}`);
  else for (const { runId, state } of (JSON.parse(listed.stdout) as { runs: { runId: string; state: string }[] }).runs) states.set(runId, state);
  for (const player of players) findings.push(...(await checkRun(rig, player, states.get(player.runId))).map((finding) => `${player.runId}: ${finding}`));
  findings.push(...brokenArtifacts(rig.stateDir), ...(await leftoversOf(rig, jailed)));
  return findings;
}

async function checkRun(rig: Rig, { runId, story, specFile }: Player, listedState: string | undefined): Promise<readonly string[]> {
  const events = await rig.events(runId).catch((error: unknown) => String(error));
  if (typeof events === 'string') return [events];
  const findings = [...findingsOf(story, events)];
  const state = await stateOf(rig, runId);
  if (listedState !== state) findings.push(`runs says ${listedState}, status says ${state}`);
  if (!story.states.includes(state) && !isExplainedFailure(events)) findings.push(`status says ${state}`);
  if (state === 'succeeded') {
    const result = await rig.cli('result', runId);
    if (result.code !== 0 || result.stdout !== story.result) findings.push(`result ended with ${result.code} and ${JSON.stringify(result.stdout.slice(-200))}`);
  }
  const spec = readFileSync(specFile, 'utf8');
  return [...findings, ...folderFindings(dirname(specFile), { 'spec.yaml': spec, ...(state === 'succeeded' ? story.after : story.before) })];
}

/** Waits, since a VM whose run has ended may be found only by the janitor; what is left then is a finding. */
async function leftoversOf(rig: Rig, jailed: JailedProcesses): Promise<readonly string[]> {
  const look = (): readonly string[] => [
    ...rig.keepers().map(({ vmKey }) => `the VM ${vmKey} is alive`),
    ...fileLeftovers(rig.stateDir),
    ...jailed.living(),
    ...strayProcesses(rig),
  ];
  const end = Date.now() + LEFTOVERS_LIMIT_MS;
  for (;;) {
    const found = look();
    if (found.length === 0 || Date.now() > end) return found;
    await sleep(250);
  }
}
