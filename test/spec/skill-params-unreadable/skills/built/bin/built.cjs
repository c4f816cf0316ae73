throw new Error('its code is not run');
