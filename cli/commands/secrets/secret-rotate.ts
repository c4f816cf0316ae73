import { InvalidArgumentError } from 'commander';
import { askTokenService } from '../../../app/access/token-service.ts';
import { parseDurationMs } from '../../../domain/units/duration.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { describeSecrets } from '../../render/secrets/secrets.ts';
import { parseSecrets } from '../../secrets/answers.ts';
import { addDeploymentOption, type DeploymentOptions, printChanged, reportProgress } from '../../secrets/options.ts';
import { readSecretValue } from '../../secrets/read-value.ts';

interface Options extends DeploymentOptions {
  readonly file?: string;
  readonly keep?: number;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--deployment', '--keep'],
    examples: [
      ['voidbox secret rotate WEBHOOK_SECRET < new', 'webhooks accept both values for 24 hours'],
      ['voidbox secret rotate WEBHOOK_SECRET --keep 7d --file new', 'and both for 7 days'],
    ],
    notes: [
      ['Runs', 'A run that starts from now on gets the new value. A run that has started keeps its own.'],
      ['At once', '`voidbox secret set` replaces a value, and webhooks refuse the value before at once.'],
    ],
    exitCodes: [
      ['0', 'the secret has the new value'],
      ['2', 'there is no such secret, or the value or an option has a mistake'],
      ['3', 'environment: the service, its database or the key of secrets cannot be used'],
    ],
  },
  configure: (command) => {
    command.argument('<name>', 'the name of the secret');
    addDeploymentOption(command, 'a deployment whose value is replaced')
      .option('--file <path>', 'read the value from a file')
      .option('--keep <time>', 'webhooks accept the value before for this long: 1s to 7d (default: 24h)', parseKept);
  },
  async execute([name = ''], { deployment = [], file, keep, json }, context) {
    const value = await readSecretValue(context, file);
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['secrets', name, 'rotate'],
      body: { json: { value, deployments: deployment, ...(keep === undefined ? {} : { keepMs: keep }) } },
      onProgress: reportProgress(context),
    });
    const secrets = parseSecrets(answer);
    const untilMs = secrets[0]?.previousUntilMs ?? null;
    const until = untilMs === null ? '' : `; webhooks accept the value before until ${new Date(untilMs).toISOString()}`;
    await printChanged(context, secrets, { json, text: `rotated ${describeSecrets(secrets)}${until}` });
    return EXIT.success;
  },
});

function parseKept(text: string): number {
  const ms = parseDurationMs(text);
  if (ms !== null) return ms;
  throw new InvalidArgumentError('It must be a duration, such as 24h or 7d.');
}
