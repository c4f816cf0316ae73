import { InvalidArgumentError } from 'commander';
import { defineCommand } from '../../command.ts';
import { changeDeployment } from '../../deployments/change.ts';

interface Options {
  readonly to?: number;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<name>', 'the name of the deployment')
      .option('--to <version>', 'the version to enable (default: the one before)', parseVersion);
  },
  async execute([name = ''], { to, json }, context) {
    return await changeDeployment(
      {
        name,
        verb: 'rollback',
        body: to === undefined ? {} : { version: to },
        isJson: json === true,
        describe: ({ version }) => `${name}: version ${version} is enabled; later versions stay`,
      },
      context,
    );
  },
});

function parseVersion(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be the number of a version.');
}
