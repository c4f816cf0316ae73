/** The door of skills by its former path: skills that were built before it moved import `dist/cli/skill-door.js` when they run. */
export { DURABLE_DOOR, openDurableSessions, TAKES_VARIABLES } from '../client/skill-door.ts';
