from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0003_drained_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="drained_by",
            field=models.CharField(blank=True, db_default="", max_length=150),
        ),
    ]
