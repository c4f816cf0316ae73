import type { CommandEntry, CommandFamily } from './command-entry.ts';

/** The commands about the HTTP API as a service: its tokens, its audit log, its database, and the use of another one. */
export const SERVICE_COMMANDS: readonly (CommandEntry | CommandFamily)[] = [
  {
    name: 'serve',
    usage: 'serve',
    summary: 'serve the HTTP API until Ctrl-C, also with your own Temporal server',
    about:
      'Serve the HTTP API on Unix sockets and over TCP until Ctrl-C or SIGTERM: with the embedded stack, or with your own Temporal server.',
    load: () => import('./commands/host/serve.ts'),
  },
  {
    name: 'token',
    usage: 'token VERB',
    summary: 'create, list and revoke tokens of the HTTP API',
    commands: [
      {
        name: 'create',
        usage: 'token create NAME',
        summary: 'create a token and print it once',
        isForAnyMachine: true,
        load: () => import('./commands/access/token-create.ts'),
      },
      {
        name: 'list',
        usage: 'token list',
        summary: 'list tokens, also expired and revoked ones',
        isForAnyMachine: true,
        load: () => import('./commands/access/token-list.ts'),
      },
      {
        name: 'revoke',
        usage: 'token revoke NAME',
        summary: 'revoke a token; its runs continue',
        isForAnyMachine: true,
        load: () => import('./commands/access/token-revoke.ts'),
      },
    ],
  },
  {
    name: 'secret',
    usage: 'secret VERB',
    summary: 'set, rotate, list and remove secrets of deployments',
    commands: [
      {
        name: 'set',
        usage: 'secret set NAME',
        summary: 'add or replace a secret; its value is read from standard input',
        isForAnyMachine: true,
        load: () => import('./commands/secrets/secret-set.ts'),
      },
      {
        name: 'rotate',
        usage: 'secret rotate NAME',
        summary: 'replace a secret; webhooks accept the value before for a time',
        isForAnyMachine: true,
        load: () => import('./commands/secrets/secret-rotate.ts'),
      },
      {
        name: 'list',
        usage: 'secret list',
        summary: 'list secrets without their values',
        isForAnyMachine: true,
        load: () => import('./commands/secrets/secret-list.ts'),
      },
      {
        name: 'rm',
        usage: 'secret rm NAME',
        summary: 'remove a secret',
        isForAnyMachine: true,
        load: () => import('./commands/secrets/secret-rm.ts'),
      },
      {
        name: 'rekey',
        usage: 'secret rekey',
        summary: 'encrypt all secrets with the first key of the key file',
        isForAnyMachine: true,
        load: () => import('./commands/secrets/secret-rekey.ts'),
      },
    ],
  },
  {
    name: 'approval',
    usage: 'approval VERB',
    summary: 'make links with which people answer questions of runs',
    commands: [
      {
        name: 'link',
        usage: 'approval link RUN [STAGE] --as NAME',
        summary: 'make a link with which one person answers once, without a token',
        isForAnyMachine: true,
        load: () => import('./commands/runs/approval-link.ts'),
      },
    ],
  },
  {
    name: 'login',
    usage: 'login URL',
    summary: 'use the runs of another machine; --status shows which',
    isForAnyMachine: true,
    load: () => import('./commands/access/login.ts'),
  },
  {
    name: 'logout',
    usage: 'logout',
    summary: 'use the runs of this machine again',
    isForAnyMachine: true,
    load: () => import('./commands/access/logout.ts'),
  },
  {
    name: 'audit',
    usage: 'audit',
    summary: 'list the changes that tokens made',
    isForAnyMachine: true,
    load: () => import('./commands/access/audit.ts'),
  },
  {
    name: 'service',
    usage: 'service VERB',
    summary: 'start the stack with your session, and prepare your own database',
    commands: [
      {
        name: 'install',
        usage: 'service install',
        summary: 'write a systemd user unit for the embedded stack, or for `serve` with your own server',
        load: () => import('./commands/host/service-install.ts'),
      },
      {
        name: 'uninstall',
        usage: 'service uninstall',
        summary: 'stop the stack or `serve`, and remove the systemd user unit',
        load: () => import('./commands/host/service-uninstall.ts'),
      },
      {
        name: 'status',
        usage: 'service status',
        summary: 'show the systemd user unit, and whether it is active',
        load: () => import('./commands/host/service-status.ts'),
      },
      {
        name: 'migrate',
        usage: 'service migrate',
        summary: 'bring the schema of the database that DATABASE_URL names to this version',
        load: () => import('./commands/access/service-migrate.ts'),
      },
    ],
  },
];
