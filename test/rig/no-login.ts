/** Tests start commands as this account. With a login of the account, these would use runs of another machine. */
import { existsSync } from 'node:fs';
import { readEnvironment } from '../../setup/environment.ts';

const { loginFile } = readEnvironment({
  HOME: process.env['HOME'],
  XDG_CONFIG_HOME: process.env['XDG_CONFIG_HOME'],
});
if (loginFile !== null && existsSync(loginFile))
  throw new Error(`the login ${loginFile} would send commands of tests to another machine: voidbox logout`);
