import { defineCommand } from '../../command.ts';
import { changeDeployment } from '../../deployments/change.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<name>', 'the name of the deployment');
  },
  async execute([name = ''], { json }, context) {
    return await changeDeployment(
      {
        name,
        verb: 'resume',
        body: {},
        isJson: json === true,
        describe: ({ version }) => `resumed ${name}: the triggers of version ${version} are enabled`,
      },
      context,
    );
  },
});
