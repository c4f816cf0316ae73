import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { describeSecrets } from '../../render/secrets/secrets.ts';
import { parseSecrets } from '../../secrets/answers.ts';
import { addDeploymentOption, type DeploymentOptions, printChanged, reportProgress } from '../../secrets/options.ts';
import { readSecretValue } from '../../secrets/read-value.ts';

interface Options extends DeploymentOptions {
  readonly file?: string;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--deployment', '--file'],
    examples: [
      ['voidbox secret set API_KEY', 'asks for the value, which the terminal does not show'],
      ['voidbox secret set API_KEY --deployment review < key', 'from standard input, for one deployment'],
      ['voidbox secret set DEPLOY_KEY --file id_ed25519', 'a file as it is, with the end of its last line'],
    ],
    notes: [
      [
        'The value',
        'It is text of at most 64 KiB. One end of a line at the end of standard input is removed. Options cannot contain it, because other users see command lines.',
      ],
      ['Write-only', 'No command and no route shows it again. It is stored encrypted.'],
      ['Precedence', 'The value of a deployment takes precedence over the one for all deployments.'],
    ],
    exitCodes: [
      ['0', 'the secret is stored'],
      ['2', 'the name, the value or an option has a mistake'],
      ['3', 'environment: the service, its database or the key of secrets cannot be used'],
    ],
  },
  configure: (command) => {
    command.argument('<name>', 'the name of the variable that a stage or a webhook names');
    addDeploymentOption(command, 'a deployment that may use it').option('--file <path>', 'read the value from a file');
  },
  async execute([name = ''], { deployment = [], file, json }, context) {
    const value = await readSecretValue(context, file);
    const answer = await askTokenService(context, {
      method: 'PUT',
      path: ['secrets', name],
      makesDatabase: true,
      body: { json: { value, deployments: deployment } },
      onProgress: reportProgress(context),
    });
    const secrets = parseSecrets(answer);
    await printChanged(context, secrets, { json, text: `set ${describeSecrets(secrets)}` });
    return EXIT.success;
  },
});
