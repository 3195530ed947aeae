"""Built-in services of the integration types spreadsheet, sms, messaging and crm. `config.service` names one."""
