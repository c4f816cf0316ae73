/** `npm run storm -- [--service | --triggers] [--rounds N] [--seed N] [--from N] [--lanes N] [--disk] [--json]`: exit code 1 when a round finds something, 2 for wrong options. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { stormService } from './service/storm.ts';
import { storm, type StormRound } from './storm.ts';
import { NO_QUEUE } from './triggers/outside.ts';
import { stormTriggers } from './triggers/storm.ts';

const USAGE = `usage: npm run storm -- [options]
Kills and stops processes behind runs, damages snapshots, and looks for losses.
  --service    kills the HTTP API, its database and the stack while runs start and readers follow them; without VMs
  --triggers   kills each process of the stack and a server of NATS while each source of events starts runs; without VMs
  --rounds N   how many rounds (20; with --service or --triggers 50)
  --seed N     repeats the blows of an earlier storm; without it a new one, which is printed
  --from N     number of the first round (0): with --rounds 1 plays that round alone
  --lanes N    rounds side by side, each lane with a stack of its own (2)
  --disk       each state folder lies on a small disk, which is filled for some seconds in each round; takes root
  --json       one object a line: a round each, then the summary
`;

async function main(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      service: { type: 'boolean', default: false },
      triggers: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seed: { type: 'string', default: String(randomInt(1_000_000)) },
      from: { type: 'string', default: '0' },
      lanes: { type: 'string', default: '2' },
      disk: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  if (values.service && values.triggers) throw new RangeError('--service and --triggers are two storms: omit one');
  const isWithoutVms = values.service || values.triggers;
  const [rounds, seed, firstRound, lanes] = [
    numberOf('--rounds', values.rounds ?? (isWithoutVms ? '50' : '20'), 1, 1_000_000),
    numberOf('--seed', values.seed, 0, 0xffff_ffff),
    numberOf('--from', values.from, 0, 1_000_000),
    numberOf('--lanes', values.lanes, 1, 16),
  ];
  if (isWithoutVms && values.disk) throw new RangeError('only a storm with VMs fills a disk: omit --disk');
  if (values.disk && process.getuid?.() !== 0)
    throw new RangeError('--disk mounts a small file system: run it as root');
  const stop = new AbortController();
  // The first Ctrl-C lets the running rounds finish, and they wake and end the processes that they started.
  process.once('SIGINT', () => {
    process.stderr.write('\nfinishing the rounds that go on\n');
    stop.abort();
  });
  process.stderr.write(`storm of ${rounds} rounds, seed ${seed}\n`);
  if (values.triggers && NO_QUEUE !== null) process.stderr.write(`without a queue: ${NO_QUEUE}\n`);
  const options = {
    seed,
    rounds,
    firstRound,
    lanes,
    signal: stop.signal,
    onRound: (report: StormRound) => say(report, values.json),
  };
  const reports = values.service
    ? await stormService(options)
    : values.triggers
      ? await stormTriggers(options)
      : await storm({ ...options, disk: values.disk });
  const bad = reports.filter(({ findings }) => findings.length > 0);
  const summary = {
    seed,
    rounds: reports.length,
    blows: reports.reduce((sum, { blows }) => sum + blows.length, 0),
    roundsWithFindings: bad.length,
  };
  if (values.json) process.stdout.write(`${JSON.stringify(summary)}\n`);
  else
    process.stdout.write(
      `${summary.rounds} rounds, ${summary.blows} blows, seed ${seed}: ${bad.length === 0 ? 'no finding' : `${bad.length} rounds with findings`}\n`,
    );
  for (const { round, keptIn } of bad)
    process.stderr.write(
      `again: npm run storm -- ${values.service ? '--service ' : values.triggers ? '--triggers ' : ''}--seed ${seed} --from ${round} --rounds 1${values.disk ? ' --disk' : ''} (state kept in ${keptIn})\n`,
    );
  if (stop.signal.aborted) return 130;
  return bad.length === 0 ? 0 : 1;
}

function numberOf(option: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isInteger(value) || value < least || value > most)
    throw new RangeError(`${option} is ${JSON.stringify(text)}: give a whole number from ${least} to ${most}`);
  return value;
}

function say(report: StormRound, asJson: boolean): void {
  if (asJson) return void process.stdout.write(`${JSON.stringify(report)}\n`);
  const { round, durationMs, blows, findings, connections } = report;
  const readers = connections === undefined ? '' : `; ${connections} connections of readers`;
  process.stderr.write(
    `round ${round}: ${findings.length === 0 ? 'ok' : 'FINDINGS'} in ${(durationMs / 1000).toFixed(0)} s; ${blows.join(', ')}${readers}\n`,
  );
  for (const finding of findings) process.stderr.write(`  ${finding}\n`);
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const isUsage =
    error instanceof RangeError ||
    (error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'));
  if (!isUsage) throw error;
  process.stderr.write(`${error.message}\n${USAGE}`);
  process.exitCode = 2;
}
