import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { describeSecrets } from '../../render/secrets/secrets.ts';
import { parseSecrets } from '../../secrets/answers.ts';
import { addDeploymentOption, type DeploymentOptions, printChanged, reportProgress } from '../../secrets/options.ts';

export const command = defineCommand<DeploymentOptions>({
  configure: (command) => {
    command.argument('<name>', 'the name of the secret');
    addDeploymentOption(command, 'a deployment whose value is removed').addHelpText(
      'after',
      '\nRuns that have started keep the value. A copy of the database that was made before contains it, encrypted.',
    );
  },
  async execute([name = ''], { deployment = [], json }, context) {
    const answer = await askTokenService(context, {
      method: 'DELETE',
      path: ['secrets', name],
      query: { deployments: deployment.length === 0 ? undefined : deployment.join(',') },
      onProgress: reportProgress(context),
    });
    const secrets = parseSecrets(answer);
    await printChanged(context, secrets, { json, text: `removed ${describeSecrets(secrets)}` });
    return EXIT.success;
  },
});
