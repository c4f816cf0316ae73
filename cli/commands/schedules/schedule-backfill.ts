import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderBackfilled } from '../../render/schedules/schedules.ts';
import { parseBackfilled } from '../../schedules/answers.ts';
import { parseTypedTime } from '../../schedules/typed-time.ts';

interface Options {
  readonly from?: string;
  readonly to?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--from', '--to', '--dry-run'],
    examples: [
      [
        'voidbox schedule backfill report nightly --from 2026-11-01T00:00 --to 2026-11-07T00:00 --dry-run',
        'list the times of a week',
      ],
    ],
    notes: [
      [
        'Once',
        'A time that has started a run starts no second one. Unless the schedule has `overlap: allow`, the runs start one after the other.',
      ],
    ],
    exitCodes: [
      ['0', 'the service has accepted it'],
      ['2', 'an option has a mistake, or there is no such schedule'],
      ['3', 'environment: the service, its database or the server of Temporal does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('<deployment>', 'the name of the deployment')
      .argument('<trigger>', 'the name of the schedule')
      .option('--from <time>', 'the first time: 2026-12-01T06:00, with Z or +01:00 for a zone', parseTypedTime)
      .option('--to <time>', 'the last time (default: now)', parseTypedTime)
      .option('--dry-run', 'list the times, and start nothing');
  },
  async execute([deployment = '', trigger = ''], { from, to, dryRun = false, json }, context) {
    if (from === undefined) throw createUsageError('--from is missing', 'Name the first time: --from 2026-12-01T06:00');
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['deployments', deployment, 'schedules', trigger, 'backfill'],
      body: { json: { from, to: to ?? context.now().toISOString(), isDry: dryRun } },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const times = parseBackfilled(answer);
    if (json === true) await stdout.write(`${JSON.stringify({ times })}\n`);
    else if (times.length === 0) await stderr.write('The schedule has no time in this range.\n');
    else await stdout.write(`${renderBackfilled(times, { style: stdout.style, width: stdout.width() }).join('\n')}\n`);
    return EXIT.success;
  },
});
